"""Which libraries each extra of the package brings, and the command that brings it
to this installation.
"""

import os
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

LEARN = (
    "joblib",
    "matplotlib",
    "pandas",
    "platformdirs",
    "sklearn",
    "torch",
    "torchvision",
    "tqdm",
)
NOTEBOOKS = ("ipykernel", "nbformat", "papermill")
# of what the package itself imports; pyproject.toml names the distributions and their
# versions
EXTRAS = {
    "learn": LEARN,
    "book": (*LEARN, *NOTEBOOKS, "seaborn"),
}
REPOSITORY = re.compile(  # what DPNOTES_REPOSITORY is
    r"(?P<url>https?://(?P<host>[^/@\s]+)/[^/@\s]+/[^/@\s]+?)(?:\.git)?/?(?:@(?P<branch>[\w./-]+))?"
)


class MissingExtra(ImportError):
    """A part of the package was imported whose extra is not installed."""


def require(extra: str, *, part: str) -> None:
    """Raise MissingExtra unless the libraries of an extra are installed; none of them
    is imported.

    Parameters
    ----------
    extra : {"learn", "book"}
    part : str
        What needs them, for the message.

    Examples
    --------
    >>> require("learn", part="dpnotes.methods")
    """
    missing = [name for name in EXTRAS[extra] if find_spec(name) is None]
    if missing:
        raise MissingExtra(
            f"{part} needs the extra [{extra}]: {install_command(extra)} (not"
            f" installed: {', '.join(missing)})"
        )


def install_command(extra: str) -> str:
    """The command that brings an extra to this installation, from where the
    installation itself came.

    ``DPNOTES_REPOSITORY`` comes first; then the clone whose files are imported, which
    the command installs as editable, because a plain install would replace the clone by
    a copy; then the folder, file or commit that the installer has recorded (PEP 610).
    Without a record the package came from a registry, by its name.

    Parameters
    ----------
    extra : str
        ``"learn"``, ``"book"``, ``"lab"``, ``"pdf"``, ``"dask"`` or ``"test"``.
    """
    if source := repository_source():
        return f'pip install "dpnotes[{extra}] @ {source}"'
    try:
        return f"pip install {_installed_from(extra)}"
    # whatever is wrong with a record, the message that needs the command must not be
    # lost
    except Exception:
        return f'pip install "dpnotes[{extra}]"'


def repository_source() -> str:
    """What pip installs from the repository of ``DPNOTES_REPOSITORY``; empty if that
    is unset or not an address.
    """
    if (
        found := REPOSITORY.fullmatch(os.environ.get("DPNOTES_REPOSITORY", ""))
    ) is None:
        return ""
    return f"git+{found['url']}" + (f"@{found['branch']}" if found["branch"] else "")


def _installed_from(extra: str) -> str:
    clone = Path(__file__).resolve().parents[1]
    if (
        settings := clone / "pyproject.toml"
    ).is_file() and 'name = "dpnotes"' in settings.read_text(encoding="utf-8"):
        return f'-e "{_named(clone)}[{extra}]"'

    import json
    from importlib.metadata import distribution
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    record = distribution("dpnotes").read_text("direct_url.json")
    if record is None:
        return f'"dpnotes[{extra}]"'
    origin: dict[str, Any] = json.loads(record)
    address = urlsplit(origin["url"])
    if version := origin.get("vcs_info"):
        return (
            f'"dpnotes[{extra}] @'
            f' {version["vcs"]}+{origin["url"]}@{version["commit_id"]}"'
        )
    if address.scheme != "file":
        return f'"dpnotes[{extra}] @ {origin["url"]}"'
    return f'"{_named(Path(url2pathname(address.path)))}[{extra}]"'


def _named(path: Path) -> str:
    """How a command names a file or folder: ``.`` for the working directory."""
    return "." if path == Path.cwd() else str(path)
