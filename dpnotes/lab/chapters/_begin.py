"""What a chapter computes for the parameters that it was given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from dpnotes.lab.store import Compute


@dataclass(frozen=True)
class Scale:
    """The size of a computation.

    Parameters
    ----------
    name : {"quick", "paper"}
    compute : {"stored", "missing", "all"}
        Which rows are run: see :func:`dpnotes.lab.store.collect`.
    records : str
        The reader's records, as ``dpnotes.lab.own_data.reference`` calls them;
        empty: those of the book.
    """

    name: Literal["quick", "paper"]
    compute: Compute
    records: str = ""

    @property
    def compute_paper(self) -> Compute:
        """Which rows are run for a table that has no quick scale."""
        return self.compute if self.name == "paper" else "stored"

    def few(self, seeds: int, *, quick: int) -> int:
        """The number of seeds, which is at most ``quick`` at the quick scale."""
        return min(seeds, quick) if self.name == "quick" else seeds


def begin(name: str, namespace: dict[str, Any]) -> tuple[Scale, Scale | None]:
    """Check the parameters of a chapter that runs, and say what it computes.

    Parameters
    ----------
    name : str
        Name of the chapter.
    namespace : dict
        ``globals()`` of the notebook, with the parameters scale and compute and, if
        the page takes a reader's records, dataset and target.

    Returns
    -------
    tuple of Scale and (Scale or None)
        The scale of the chapter's tables and figures, and the scale of the section
        "Your own records"; None without a reader's records. With them, everything else
        shows the published rows.

    Raises
    ------
    ValueError, TypeError, FileNotFoundError
        If a parameter is not valid, or the reader's file cannot be used.
    """
    from dpnotes.lab import figures, own_data
    from dpnotes.lab.chapters._chapter import check_parameters

    check_parameters(name, namespace)
    figures.use_style()
    scale = namespace["scale"]
    compute = namespace["compute"]
    if not namespace.get("dataset"):
        return Scale(scale, compute), None
    records = own_data.reference(namespace["dataset"], namespace["target"])
    # with own records the paper's tables are shown as published
    return Scale("paper", "stored"), Scale(scale, compute, records)
