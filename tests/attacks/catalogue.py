"""The catalogue of attacks: what each does, the broken copy that it breaks, and the
estimators that it must not break.

An attack is a function of a target, and its evidence says whether it got past a
guarantee, with a figure. It is run against a small broken copy, where it must succeed,
and against estimators of ours, where it must not. Attacks are deterministic, or succeed
by chance with a probability below 1e-9.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple

FAMILIES = {
    "noise_reuse": "noise that repeats or can be guessed",
    "floating_point": "floating point",
    "live_state": "parameters, budgets and profiles that change after the fit",
    "queries": "queries and their scale",
    "disclosure": "errors, warnings and attributes that disclose",
    "overflow": "overflow and underflow of norms and sums",
    "copies": "pickles, copies, threads and forks",
}
CATALOGUE: list[Attack] = []


class Evidence(NamedTuple):
    """What an attack saw: whether it got past the guarantee, and a figure or a
    message that shows it.
    """

    success: bool
    figure: str


@dataclass(frozen=True)
class Attack:
    """One attack, the broken copy that it gets past, and the targets that it must
    not get past.
    """

    run: Callable[[Any], Evidence]
    broken: Any
    ours: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Name of the function."""
        return self.run.__name__

    @property
    def family(self) -> str:
        """Name of the module."""
        return self.run.__module__.rpartition(".")[2]

    @property
    def description(self) -> str:
        """First paragraph of the docstring."""
        return " ".join(str(self.run.__doc__).partition("\n\n")[0].split())


def attack(
    *, broken: Any, ours: Mapping[str, Any]
) -> Callable[[Callable[[Any], Evidence]], Callable[[Any], Evidence]]:
    """Enter the function below into the catalogue."""

    def enter(run: Callable[[Any], Evidence]) -> Callable[[Any], Evidence]:
        CATALOGUE.append(Attack(run, broken, ours))
        return run

    return enter


def attacks() -> list[Attack]:
    """All attacks, family by family."""
    for family in FAMILIES:
        import_module(f"tests.attacks.{family}")
    return CATALOGUE


def figures() -> Iterator[dict[str, str]]:
    """Rows of a table: family, attack, the broken copy's figure, the target, its
    figure.
    """
    for entry in attacks():
        theirs = entry.run(entry.broken)
        for name, target in entry.ours.items():
            own = entry.run(target)
            yield {
                "family": FAMILIES[entry.family],
                "name": entry.name,
                "attack": entry.description,
                "broken": theirs.figure,
                "breaks": _yes_or_no(theirs.success),
                "target": name,
                "ours": own.figure,
                "withstands": _yes_or_no(not own.success),
            }


def _yes_or_no(outcome: bool) -> str:
    return "yes" if outcome else "no"
