"""``dpnotes.recommend``: recommend a private learner for the shape of a table,
without the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from dpnotes import _validation as check
from dpnotes.comparing._candidates import MAJORITY, Candidate, Task
from dpnotes.comparing._compare import MOST_CLASSES, Budget, Run, Source, chosen
from dpnotes.comparing._result import LEVEL, Comparison
from dpnotes.comparing._tables import Preparation
from dpnotes.preprocessing import PublicScaler


class Recommendation(Comparison):
    """A comparison on synthetic tables only; it names a method only if the method is
    shown to help.
    """

    guess = ""  # there is no table

    @property
    def helping(self) -> list[str]:
        """Private methods that are shown to be better than the majority class, in order
        of falling accuracy.

        By Bonferroni's inequality, the probability that any of these methods is listed
        wrongly is at most 5 %. Without this correction, the best of many methods that
        do not help would seem to help.
        """
        part = LEVEL / max(1, len(self.private))
        return [
            name
            for name in self.private
            if self.difference(name, MAJORITY, level=part).low > 0
        ]

    @property
    def candidates(self) -> list[str]:
        """The best helpful method, and the helpful methods not distinguished from
        it; empty if no method helps.
        """
        first = self.helping[:1]
        return first + [
            name
            for name in self.helping[1:]
            if not self.difference(first[0], name).low > 0
        ]

    @property
    def chosen(self) -> str:
        """Name of the chosen method.

        It is the first method in :attr:`helping` or, if none helps, the majority class.
        The attribute ``best`` holds this method.
        """
        return next(iter(self.helping), MAJORITY)


def recommend(
    *,
    n: int,
    d: int,
    n_classes: int,
    epsilon: float,
    delta: float = 0.0,
    answers: int | None = None,
    seconds: float = 60.0,
    repeats: int | None = None,
    methods: Sequence[str | Candidate] | None = None,
    random_state: int = 0,
    n_jobs: int = 1,
    progress: bool = False,
) -> Recommendation:
    """Recommend a private learner for a table of this shape, by training all methods on
    synthetic tables.

    Guarantees: the function reads no record, so its answer reveals nothing. The best
    method also depends on the data, so the accuracies are means over synthetic tables,
    which differ in the distances between classes and in the kinds of columns.
    :func:`compare` describes the conditions that are the same for all methods.

    Parameters
    ----------
    n : int, >= 1
        Number of records of the fit.
    d : int, >= 1
        Number of features.
    n_classes : int, >= 2
        Number of classes, at most 50.
    epsilon : float, > 0
    delta : float, in [0, 1)
    answers : int, >= 1, optional
        Number of queries to answer; by default it is not limited.
    seconds, repeats, methods, random_state, n_jobs, progress
        See :func:`compare`.

    Returns
    -------
    Recommendation
        The result; its ``best`` takes numbers in [-1, 1] and labels 0 to ``n_classes -
        1``.

    Raises
    ------
    ValueError
        If a number is outside its range, or a method is not known.
    TypeError
        If a number has the wrong type.

    Source
    ------
    :func:`compare`.

    Examples
    --------
    >>> found = recommend(
    ...     n=1,
    ...     d=4,
    ...     n_classes=2,
    ...     epsilon=1.0,
    ...     repeats=3,
    ...     methods=["ClassMeans", "RandomTrees"],
    ... )
    >>> found.candidates, found.chosen
    ([], 'majority class')
    """
    n_classes = check.at_least(
        "n_classes", n_classes, 2, most=("the largest number of classes", MOST_CLASSES)
    )
    task = Task(
        check.at_least_one("n", n),
        check.at_least_one("d", d),
        range(n_classes),
        check.positive("epsilon", epsilon),
        check.real("delta", delta, high=1.0, below="nothing is hidden"),
        None if answers is None else check.at_least_one("answers", answers),
        None,
    )
    budget = Budget(
        check.positive("seconds", seconds),
        None if repeats is None else check.at_least_one("repeats", repeats),
        progress,
    )
    run = Run(chosen(methods), Source.synthetic(task, random_state), budget, {}, n_jobs)
    found = run.result(Preparation(PublicScaler(-1.0, 1.0), task.d), "shape", ())
    return Recommendation(
        **{field.name: getattr(found, field.name) for field in fields(found)}
    )
