"""What rows of a store took."""

from collections.abc import Mapping
from typing import NamedTuple

from dpnotes.lab.store._store import PathLike, Store
from dpnotes.lab.store._values import Scalar, is_missing


class Measured(NamedTuple):
    """One row: its parameters, the seconds that it took, and the device that computed it ("cpu", or a GPU's name)."""

    parameters: Mapping[str, Scalar]
    seconds: float
    device: str


def measured(store: PathLike) -> list[Measured]:
    """Give what the rows of a store took, in the order of the file; nothing if it does not exist.

    Raises
    ------
    StoreError
        If the store is damaged.
    """
    found = []
    for row in Store(store).read().rows.values():
        seconds, device = row.provenance.get("seconds"), row.provenance.get("device")
        if isinstance(seconds, int | float) and not is_missing(seconds):
            found.append(Measured(row.parameters, float(seconds), "cpu" if is_missing(device) else str(device)))
    return found
