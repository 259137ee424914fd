"""``dpnotes.compare``: compare private learners on a table, or on synthetic tables
of its shape, in limited time.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self

import joblib
import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from sklearn.base import clone

from dpnotes import _validation as check
from dpnotes.comparing._candidates import (
    MAJORITY,
    NO_PRIVACY,
    OURS,
    Candidate,
    Task,
    Unsuited,
)
from dpnotes.comparing._others import OTHERS
from dpnotes.comparing._result import Comparison
from dpnotes.comparing._running import scored, text_of
from dpnotes.comparing._selection import (
    BLOCK,
    COST,
    MOST_BLOCKS,
    REPEATS,
    SHORTLIST,
    after_choice,
    blocks_for,
    choice_profile,
    lead_for,
    private_choice,
)
from dpnotes.comparing._tables import (
    TEST,
    Bounds,
    Preparation,
    Split,
    codes_of,
    cut,
    preparation,
    synthetic,
    table_of,
)
from dpnotes.preprocessing import ClipNorm, told_empty

DATA = ("shape", "public", "private")
# repeats of all settings that are left, and how many of each method go on
HALVING = ((1, 4), (2, 2), (2, 1))
# of synthetic tables more, as these differ more than cuts of one table
ON_SHAPES = ((4, 4), (4, 2), (8, 1))
# of the time, when the settings must be chosen and the repeats done
TUNING, MEASURING = 0.5, 0.8
VOTED = 0.9  # of the whole time, when blocks should have voted, because durations vary
# repeats; classes, of which a number has more
MOST, MOST_CLASSES = 60, check.MOST_CLASSES
LOST = 2.0  # the error of what failed
# records at most; at an epsilon at which noise is as large relative to them
TUNED_ON = 2000
FEW = 4  # repeats that there should be time for
AROUND = (1 / 3, 3.0)  # other epsilons of the figure, as multiples


def compare(
    X: Any,
    y: Any,
    *,
    epsilon: float,
    delta: float = 0.0,
    answers: int | None = None,
    classes: Sequence[Any] | None = None,
    bounds: Bounds | None = None,
    data: str = "private",
    combinations: float = 0.5,
    seconds: float = 300.0,
    repeats: int | None = None,
    methods: Sequence[str | Candidate] | None = None,
    random_state: int = 0,
    noise_seed: int | None = None,
    n_jobs: int = 1,
    progress: bool = False,
    memory: MutableMapping[str, Any] | None = None,
) -> Comparison:
    """Compare all private classifiers for a table, and return the best, ready to fit.

    Guarantees: with ``data="private"`` the result is (epsilon/5)-DP for one record made
    empty, and together with one fit of ``best`` it is (epsilon, delta)-DP. To choose a
    method, disjoint blocks of records vote, and the outcome is drawn with noise. With
    ``data="shape"`` the result depends only on the numbers of rows, columns and
    classes, the types of the columns and the declared facts. It depends on nothing else
    in the table, so it reveals nothing. With ``data="public"`` the table is used
    without any protection.

    All guarantees are for one record made empty, and the rows are prepared by public
    bounds in the same way for all methods. The accounting is the same for all methods
    of this package. For a method of another library, the comparison uses the guarantee
    that the other library claims. Each method has at most eight settings, and
    successive halving on common splits selects one of them. The reported accuracies
    come from other splits with other noise. These splits are the same for all methods,
    so differences between methods are paired.

    Parameters
    ----------
    X : array_like [n, ...] or data frame
        The table, with at least as many rows as columns. Pictures are used pixel by
        pixel. If you want other features, compute them separately for each picture, for
        example by :class:`dpnotes.preprocessing.OrientedGradients` (bounds: -1 and 1).
    y : array_like, shape [n]
        Labels.
    epsilon : float, > 0
    delta : float, in [0, 1)
        The default, 0, means pure differential privacy.
    answers : int, >= 1, optional
        Number of queries to answer. By default it is not limited, which excludes
        methods with a budget of answers.
    classes : sequence, optional
        All labels that can occur. By default, these are the labels in y, which then
        count as public.
    bounds : tuple or mapping, optional
        Public facts about the columns. In a pair (low, high), each entry is one number
        or holds one number for each column. For a data frame, a mapping ``{name: (low,
        high) or [categories]}`` is also possible. By default, the bounds are inferred
        from X, which must then be public.
    data : {"private", "shape", "public"}
        How the method is chosen. With ``"private"``, blocks of the records vote on a
        shortlist: the best linear methods and the best other methods on synthetic
        tables of this shape, and the majority class. The vote costs a fifth of epsilon
        (:attr:`Comparison.profile`); the rest is the budget of :attr:`Comparison.best`.
        If there are too few records for a vote by blocks of 250 (fewer records hardly
        distinguish methods), the choice is made as with ``"shape"``. With ``"shape"``,
        only the synthetic tables decide. This choice reveals nothing, but it can be far
        from the best. With ``"public"``, this table itself decides, and it must not be
        secret.
    combinations : float, in [0, 1]
        Fraction of the synthetic tables whose classes depend on two columns at once,
        which no linear method can learn.
    seconds : float, > 0
        Time budget. A shorter budget allows fewer repeats, so the intervals are wider.
    repeats : int, >= 1, optional
        Number of repeats after the settings are chosen. It replaces the time budget, so
        the accuracies do not depend on the speed of the machine.
    methods : sequence of str or Candidate, optional
        Methods to compare; by default all methods of the package.
    random_state : int, >= 0
        Seed of the comparison.
    noise_seed : int, optional
        Seed of the private choice, for experiments. By default, the noise comes from
        the operating system.
    n_jobs : int
        Number of joblib workers; ``joblib.parallel_config`` can select another backend,
        such as a Dask cluster.
    progress : bool
        Show the progress on standard error.
    memory : mutable mapping, optional
        Mapping in which the function saves the accuracies, as plain numbers by name,
        and a private choice. An interrupted comparison continues from this mapping. It
        belongs to one table and is as secret as the table.

    Returns
    -------
    Comparison
        The result; ``best`` is the chosen estimator.

    Raises
    ------
    TypeError
        If a number has the wrong type.
    ValueError
        If X and y are not a table with labels of at least two classes, a public fact is
        not declared, ``memory`` belongs to another comparison, or a number is outside
        its range. Messages contain names, types and sizes, but no value of a record.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> result = compare(
    ...     X,
    ...     y,
    ...     epsilon=1.0,
    ...     data="public",
    ...     methods=["ClassMeans", "LossPerturbation"],
    ...     repeats=3,
    ... )
    >>> list(result.table["method"])[-1], result.best is not None
    ('majority class', True)
    """
    check.one_of("data", data, DATA)
    combinations = check.real("combinations", combinations, high=1.0)
    epsilon, delta = (
        check.positive("epsilon", epsilon),
        check.real("delta", delta, high=1.0, below="nothing is hidden"),
    )
    answers = None if answers is None else check.at_least_one("answers", answers)
    seconds, n_jobs = check.positive("seconds", seconds), check.jobs("n_jobs", n_jobs)
    table = table_of(X)
    labels = _classes(y, classes, len(table))
    prepared = preparation(table, bounds, public=data == "public")
    task = Task(len(table), prepared.d, labels, epsilon, delta, answers, None)
    repeats = None if repeats is None else check.at_least_one("repeats", repeats)
    public = {
        "the labels that occur": not classes,
        "the bounds of the columns": bounds is None,
    }
    read_off = tuple(each for each, undeclared in public.items() if undeclared)
    remarks = [f"{each} are taken to be public" for each in read_off]
    size, blocks, smallest, fallback = SHORTLIST, 0, max(BLOCK, 10 * len(labels)), ""
    if data == "private":
        sizes = (
            (most, blocks_for(task.n, smallest, COST * epsilon, most))
            for most in (SHORTLIST, 2)
        )
        size, blocks = next((each for each in sizes if each[1]), (0, 0))
        if not blocks:
            needed = math.ceil(lead_for(COST * epsilon, 2))
            what = (
                f"needs {needed * smallest} records"
                if needed <= MOST_BLOCKS
                else "is too noisy"
            )
            data, fallback = "shape", f"A vote {what} at epsilon {epsilon:g}."
    if blocks:
        task = replace(task, epsilon=after_choice(epsilon))
    source = Source.synthetic(task, random_state, combinations)
    if data != "shape":
        codes = codes_of(y, labels)
        rows = np.asarray(clone(prepared.box).fit_transform(table), dtype=np.float64)
    # The clock decides how many blocks vote; it starts here, so that it does not tell
    # how long records took to read. the rest is for the vote
    budget = Budget(seconds, repeats, progress, share=0.5 if blocks else 1.0)
    if data == "public":
        if max(np.bincount(codes, minlength=len(labels))[: len(labels)]) < 1 / TEST:
            raise ValueError(
                f"y must have a class with at least {1 / TEST:g} records, of which"
                f" {TEST:.0%} are used for testing"
            )
        remarks += told_empty(int((codes == len(labels)).sum())) + prepared.unread(
            table
        )
        source = Source.public(
            task, random_state, rows[codes < len(labels)], codes[codes < len(labels)]
        )
    if memory is not None:
        about = repr(
            [
                task,
                data,
                random_state,
                joblib.hash([rows, codes]) if data == "public" else None,
            ]
        )
        if memory.setdefault("of", about) != about:
            raise ValueError(
                "memory must be empty or of the same comparison, got one of another"
                " task, table or seed"
            )
    run = Run(chosen(methods), source, budget, {} if memory is None else memory, n_jobs)
    found = replace(
        run.result(prepared, data, remarks), read_off=read_off, fallback=fallback
    )
    if blocks and not found.private:
        nothing = (
            "No private choice was made, because there was no method to choose. Nothing"
            " was spent on it."
        )
        return replace(found, data="shape", fallback=nothing)
    if not blocks:
        return found
    coded = replace(task, classes=range(len(labels)))
    shortlist = [*_hedged(found.private, run.named, size), MAJORITY]
    seconds_each = run.pace({name: found.settings[name] for name in shortlist})
    least = blocks_for(task.n, smallest, COST * epsilon, size, leads=2)
    voting = budget.affords(seconds_each, least, blocks)
    if voting < blocks:
        late = (
            f"time was short, so {voting} blocks of records voted instead of {blocks},"
            " and noise decides more often"
        )
        found = replace(found, remarks=(*found.remarks, late))
    # an interrupted comparison must not draw again, which would be paid for again
    if "choice" not in run.memory:
        place = private_choice(
            [(run.named[name], found.settings[name]) for name in shortlist],
            rows,
            codes,
            coded,
            epsilon=COST * epsilon,
            n_blocks=voting,
            random_state=random_state,
            noise_seed=noise_seed,
            n_jobs=n_jobs,
            repeats=budget.affords(blocks * seconds_each, 1, REPEATS),
        )
        run.memory["choice"] = shortlist[place]
    return replace(
        found,
        choice=run.memory["choice"],
        profile=choice_profile(COST * epsilon, noise_seed),
    )


def _hedged(
    ranked: Sequence[str], named: Mapping[str, Candidate], size: int
) -> list[str]:
    """The best methods in their order, half of them linear and half not, if there
    are enough methods of each kind.
    """
    kinds = [
        [name for name in ranked if named[name].ball == linear][: size // 2]
        for linear in (True, False)
    ]
    others = [name for name in ranked if name not in (*kinds[0], *kinds[1])]
    kept = {*kinds[0], *kinds[1], *others[: size - len(kinds[0]) - len(kinds[1])]}
    return [name for name in ranked if name in kept]


@dataclass(frozen=True, eq=False)
class Source:
    """Tables of a comparison: a synthetic table for each repeat, or one public table
    that each repeat splits again.
    """

    task: Task
    n: int  # records to fit in a whole split
    # of a repeat, with at most so many records to fit
    split: Callable[[int, int | None], Split]
    halving: Sequence[tuple[int, int]]
    # of the variance of a repeat's accuracy, what more repeats do not lessen
    shared: float

    @classmethod
    def synthetic(
        cls, task: Task, random_state: int, combinations: float = 0.0
    ) -> Self:
        """Make a source of synthetic tables of the task's shape; its repeats are
        independent.
        """

        def split(repeat: int, rows: int | None) -> Split:
            # without them as published rows were drawn
            n = min(task.n, rows or task.n) if combinations else task.n
            made = synthetic(
                n,
                task.d,
                len(task.classes),
                random_state,
                repeat,
                combinations=combinations,
            )
            return made.thinned(rows)

        return cls(task, task.n, split, ON_SHAPES, 0.0)

    @classmethod
    def public(cls, task: Task, random_state: int, X: Any, codes: Any) -> Self:
        """Make a source of splits of one table; intervals have the correction of
        Nadeau and Bengio (2003).
        """

        def split(repeat: int, rows: int | None) -> Split:
            return cut(X, codes, [random_state, repeat]).thinned(rows)

        return cls(task, len(split(0, None).X), split, HALVING, TEST / (1 - TEST))


@dataclass(eq=False)
class Budget:
    """Budget of a comparison: seconds, or a number of repeats."""

    seconds: float
    repeats: int | None
    progress: bool
    share: float = 1.0  # of the seconds, for the comparison on tables

    def __post_init__(self) -> None:
        self.began = time.perf_counter()

    def past(self, fraction: float) -> bool:
        """Whether this fraction of the time budget has passed; always False for a
        budget in repeats.
        """
        return self.repeats is None and self.left(fraction) == 0.0 and fraction < np.inf

    def left(self, fraction: float) -> float:
        """Seconds until this fraction of the time budget has passed."""
        return max(
            0.0,
            fraction * self.share * self.seconds - (time.perf_counter() - self.began),
        )

    def affords(self, seconds: float, least: int, most: int) -> int:
        """Number of blocks or repeats, each of ``seconds``, that fit in the time;
        only public durations decide it.
        """
        if self.repeats is not None:
            return most
        return int(
            np.clip(self.left(VOTED / self.share) // max(seconds, 1e-9), least, most)
        )

    def tell(self, text: str) -> None:
        """Print the progress on standard error."""
        if self.progress:
            print(
                f"\rcompare: {text}, {time.perf_counter() - self.began:.0f} s ",
                end="",
                file=sys.stderr,
                flush=True,
            )


Settings = dict[str, list[Mapping[str, Any]]]  # of each method, the best first


@dataclass(eq=False)
class Run:
    """One comparison: accuracies by method, setting, repeat, epsilon and number of
    rows, each computed once.
    """

    candidates: Sequence[Candidate]
    source: Source
    budget: Budget
    memory: MutableMapping[str, Any]
    n_jobs: int
    errors: dict[str, str] = field(default_factory=dict)  # the last of each method

    def __post_init__(self) -> None:
        self.left_out: dict[str, str] = {}  # why, by name
        self.named = {each.name: each for each in self.candidates}
        self._split: tuple[tuple[int, int | None], Split] | None = None

    def result(
        self, prepared: Preparation, data: str, remarks: Sequence[str]
    ) -> Comparison:
        """Choose the settings, measure the accuracies, and return the comparison."""
        settings, first = self._tuned(self._suited())
        rows = self._affordable(settings)
        shown: list[tuple[int, float]] = []
        for repeat in range(first, first + (self.budget.repeats or MOST)):
            # synthetic tables come in pairs
            if shown and len(shown) % 2 == 0 and self.budget.past(MEASURING):
                break
            self._all(settings, repeat, rows=rows)
            shown.append((repeat, 1.0))
        for repeat, _ in shown[: max(2, len(shown) // 2)]:
            for factor in AROUND:
                if not self.budget.past(1.0):
                    private = {
                        name: each
                        for name, each in settings.items()
                        if name != NO_PRIVACY
                    }
                    self._all(private, repeat, factor, rows=rows)
                    shown.append((repeat, factor))
        if rows is not None:
            remarks = [
                *remarks,
                (
                    f"time was short, so a fit has {rows} records; the ratio of the"
                    " noise to the number of records is the same as it would be with"
                    " all records"
                ),
            ]
        scores = [
            {
                "method": name,
                "epsilon": factor * self.source.task.epsilon,
                "repeat": repeat,
                "accuracy": kept[0],
            }
            for name, (setting,) in settings.items()
            for repeat, factor in shown
            if (kept := self.memory.get(self._key(name, setting, repeat, factor, rows)))
        ]
        noise = {
            n: self.memory[self._key(n, s, first, 1.0, rows)][2]
            for n, (s,) in settings.items()
        }
        return Comparison(
            scores=pd.DataFrame(scores),
            about=pd.DataFrame(
                {n: self._about(n, s, noise[n]) for n, (s,) in settings.items()}
            ).T,
            left_out=self.left_out,
            task=self.source.task,
            data=data,
            shared=self.source.shared,
            settings={name: setting for name, (setting,) in settings.items()},
            estimators={
                name: self._final(prepared, name, *each)
                for name, each in settings.items()
            },
            remarks=tuple(remarks),
        )

    def _suited(self) -> Settings:
        """The settings of each method that can be used for the task at all."""
        found: Settings = {}
        for candidate in self.candidates:
            for setting in candidate.settings:
                try:
                    candidate.made(self._task(), setting)
                    found.setdefault(candidate.name, []).append(setting)
                except Unsuited as reason:
                    self.left_out[candidate.name] = str(reason)
        self.left_out = {
            name: reason for name, reason in self.left_out.items() if name not in found
        }
        return found

    def _tuned(self, settings: Settings) -> tuple[Settings, int]:
        """The one setting of each method, and the first repeat that did not help to
        choose it.
        """
        done = 0
        for count, keep in self.source.halving:
            if done and self.budget.past(TUNING):
                break
            for repeat in range(done, done + count):
                self._all(settings, repeat, rows=TUNED_ON, late=TUNING)
            done += count
            settings = {
                name: sorted(tried, key=partial(self._loss, name, repeats=done))[:keep]
                for name, tried in settings.items()
            }
        for name, (best, *_) in list(settings.items()):
            settings[name] = [best]
            if self._loss(name, best, repeats=done) == LOST:
                self.left_out[name] = self.errors.get(name, "failed in an earlier run")
                del settings[name]
        return settings, done

    def _loss(self, name: str, setting: Mapping[str, Any], *, repeats: int) -> float:
        """Mean error on the first repeats; the worst value if the setting failed or
        there was no time for it.
        """
        found = [
            self.memory.get(self._key(name, setting, repeat, 1.0, TUNED_ON))
            for repeat in range(repeats)
        ]
        values = [1 - each[0] for each in found if each is not None]
        return float(np.mean(values)) if values and not np.isnan(values).any() else LOST

    def _affordable(self, settings: Settings) -> int | None:
        """Rows with which there is time for a few repeats; None: all."""
        if self.budget.repeats is not None or self.source.n <= TUNED_ON:
            return None
        each = (
            self.pace({name: setting for name, (setting,) in settings.items()})
            / TUNED_ON
        )
        rows = int(self.budget.left(MEASURING) / (FEW * each))
        return None if rows >= self.source.n else max(rows, TUNED_ON)

    def pace(self, settings: Mapping[str, Mapping[str, Any]]) -> float:
        """Total seconds of one fit of each method, on the number of records on which
        settings are chosen.
        """
        return float(
            sum(
                self.memory[self._key(n, s, 0, 1.0, TUNED_ON)][1]
                for n, s in settings.items()
            )
        )

    def _all(
        self,
        settings: Settings,
        repeat: int,
        factor: float = 1.0,
        *,
        rows: int | None,
        late: float = np.inf,
    ) -> None:
        """Accuracies of all methods on one repeat: of the first setting of each,
        then of the second.
        """
        split = self._table(repeat, rows)
        for place in range(max(map(len, settings.values()), default=0)):
            if place and self.budget.past(late):
                return
            tried = {
                name: each[place]
                for name, each in settings.items()
                if place < len(each)
            }
            keys = {
                name: self._key(name, setting, repeat, factor, rows)
                for name, setting in tried.items()
            }
            missing = [name for name, key in keys.items() if key not in self.memory]
            task = self._task(factor).part(len(split.X), seed=repeat)
            calls = (
                delayed(scored)(self.named[name], task, tried[name], split)
                for name in missing
            )
            found = Parallel(n_jobs=self.n_jobs, return_as="generator")(calls)
            for name, (accuracy, seconds, note) in zip(missing, found, strict=True):
                if np.isnan(accuracy):
                    self.errors[name] = note
                self.memory[keys[name]] = [accuracy, seconds, note]
                self.budget.tell(f"{len(self.memory)} fits, {name}")

    def _about(
        self, name: str, setting: Mapping[str, Any], noise: str
    ) -> dict[str, Any]:
        """What the method releases and guarantees, by a fit of some records with the
        noise of a real release.
        """
        candidate, task = self.named[name], self._task()
        about: dict[str, Any] = dict.fromkeys(
            ("exactness", "implementation", "status"), ""
        )
        about |= {"released": candidate.released, "noise": noise}
        taken = [
            each[1]
            for key, each in self.memory.items()
            if key.startswith(f"{name}|{text_of(setting)}|")
        ]
        about |= {"setting": text_of(setting), "seconds": float(np.mean(taken))}
        if candidate.released == "nothing":
            return about
        profile = candidate.profile(task) if candidate.profile else None
        if profile is None:
            some = self._table(0, TUNED_ON)
            rows = ClipNorm().fit_transform(some.X) if candidate.ball else some.X
            profile = candidate.made(task, setting).fit(rows, some.codes).profile_
        return about | {
            name: getattr(profile, name)
            for name in ("exactness", "implementation", "status")
        }

    def _final(
        self, prepared: Preparation, name: str, setting: Mapping[str, Any]
    ) -> Any:
        """The unfitted pipeline for all records, with the labels as they are."""
        candidate = self.named[name]
        return prepared.before(
            candidate.made(self.source.task, setting), ball=candidate.ball
        )

    def _table(self, repeat: int, rows: int | None) -> Split:
        if self._split is None or self._split[0] != (repeat, rows):
            self._split = (repeat, rows), self.source.split(repeat, rows)
        return self._split[1]

    def _task(self, factor: float = 1.0) -> Task:
        whole = self.source.task
        return replace(
            whole,
            n=self.source.n,
            classes=range(len(whole.classes)),
            epsilon=factor * whole.epsilon,
        )

    def _key(
        self,
        name: str,
        setting: Mapping[str, Any],
        repeat: int,
        factor: float,
        rows: int | None,
    ) -> str:
        return f"{name}|{text_of(setting)}|{repeat}|{factor:.3g}|{rows or 'all'}"


def _classes(y: Any, classes: Sequence[Any] | None, n: int) -> list[Any]:
    """All labels, sorted; errors show none that is read off y."""
    labels = np.asarray(y)
    if labels.ravel().shape != (n,):
        raise ValueError(
            f"y must hold one label for each of {n} rows of X, got shape {labels.shape}"
        )
    if classes is None and labels.dtype.kind in "Mm":
        raise ValueError("y must hold labels, got dates")
    if classes is None and pd.isna(labels).any():
        raise ValueError(
            "y must hold no missing labels; with classes=, records without a label"
            " count as empty"
        )
    listed = labels.ravel().tolist() if classes is None else list(classes)
    if len({isinstance(label, str) for label in listed}) > 1:
        raise ValueError(
            f"{'y' if classes is None else 'classes'} must hold labels of one kind, got"
            " text and others"
        )
    found: list[Any] = np.unique(
        labels if classes is None else np.asarray(classes)
    ).tolist()
    if len(found) < 2:
        raise ValueError(
            "there must be at least 2 classes, got fewer; set classes= to all labels"
            " that can occur"
        )
    if len(found) > MOST_CLASSES:
        raise ValueError(
            f"there must be at most {MOST_CLASSES} classes, got more. Maybe y is"
            f" {check.CONTINUOUS}"
        )
    return found


def chosen(wanted: Sequence[str | Candidate] | None) -> tuple[Candidate, ...]:
    """Return known candidates by name and new candidates; "majority class" and "no
    privacy" are always among them.

    Raises
    ------
    ValueError
        If a name is not known, or two methods have the same name.
    """
    known = {candidate.name: candidate for candidate in (*OURS, *OTHERS)}
    given: list[str | Candidate] = (
        [candidate.name for candidate in OURS] if wanted is None else list(wanted)
    )
    names = {each if isinstance(each, str) else each.name for each in given}
    given += [name for name in (MAJORITY, NO_PRIVACY) if name not in names]
    if unknown := [
        each for each in given if isinstance(each, str) and each not in known
    ]:
        raise ValueError(
            f"methods must be candidates or names among {', '.join(known)}, got"
            f" {', '.join(unknown)}"
        )
    found = tuple(known[each] if isinstance(each, str) else each for each in given)
    if len({candidate.name for candidate in found}) < len(found):
        raise ValueError(
            "methods must have different names, got"
            f" {', '.join(each.name for each in found)}"
        )
    return found
