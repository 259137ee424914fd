"""A setting of the chapter on intrinsic SGD that trains in a second."""

from dpnotes.lab.intrinsic_sgd import grids

SIZES = {"n_seeds": 6, "n_neighbours": 4}


def setting(initial="varied", **change):
    rows = grids.settings("quick", **SIZES, steps=40)
    return {**next(row for row in rows if row["initial"] == initial), **change}


def training(initial):
    """The same without the numbers of seeds and of neighbours."""
    return {k: v for k, v in setting(initial).items() if k not in SIZES}
