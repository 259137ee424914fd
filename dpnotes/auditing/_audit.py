"""``dpnotes.audit``: test, within a budget, whether runs of a training procedure
refute its claimed guarantee.
"""

from __future__ import annotations

import math
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import joblib
import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import special, stats

from dpnotes import _validation as check
from dpnotes import methods
from dpnotes._validation import Floats
from dpnotes.accounting import PrivacyProfile
from dpnotes.auditing._canaries import (
    Allowed,
    Canary,
    Data,
    Domain,
    Neighbours,
    Record,
    find_canaries,
)
from dpnotes.auditing._observing import Observer
from dpnotes.auditing._report import AuditReport
from dpnotes.auditing._scores import Events, audit_scores, runs_needed
from dpnotes.auditing._training import Runner, Runs, Training, last_of

# of the budget: to choose on; and of what is left then, to count on
PILOT, PLANNED = 0.25, 0.85
# of the pilot, for all canaries; how many of them get the rest
FIRST_ROUND, FINALISTS = 0.4, 3
ENOUGH = (2000, 5000)  # runs on one data set in the two rounds
LEAST_PILOT = 6  # runs on one data set
PROMISING = 0.2  # p-value on pilot runs from which it decides between canaries
# counted, of each kind: at most; as many as give a bound worth having
MOST_RUNS, NO_CLAIM = 200_000, 20
# of the runs, of what may fail
LOOKS = ((1 / 16, 0.05), (1 / 4, 0.1), (1 / 2, 0.1), (3 / 4, 0.15), (1.0, 0.6))
LEAST = 6  # runs of each kind at the first look
COUNTED = 2**24  # index of the first run that is counted, beyond all that are not
# runs on which events are chosen, where that is less than their usual fraction
HOLDOUT = 1000
# epsilons whose deltas tell one claim from another
TOLD = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0)


def audit(
    train: Any,
    X: ArrayLike,
    y: ArrayLike,
    *,
    claim: PrivacyProfile | None = None,
    seconds: float = 120.0,
    runs: int | None = None,
    confidence: float = 0.95,
    domain: Allowed = None,
    random_state: int = 0,
    memory: MutableMapping[str, Any] | None = None,
) -> AuditReport:
    """Train repeatedly on neighbouring data sets, and test whether the results refute a
    claim.

    Guarantees: with probability at least ``confidence`` over the randomness of the
    runs, the bounds of the report hold and a true claim is not refuted. This holds for
    any training procedure, any records and any running time, provided that the claim
    allows the planted record (``domain``). The argument: the canary, the scores and the
    number of runs are chosen on pilot runs, which are not counted. Given these choices,
    the counted runs are independent. The audit inspects them after 1/16, 1/4, 1/2, 3/4
    and all of the planned number. These five inspections receive 5, 10, 10, 15 and 60 %
    of the allowed failure probability; any rule may choose the inspection that is
    reported. Within an inspection, :func:`~dpnotes.auditing.audit_scores` accounts for
    all scores.

    The audit covers only what was run: neighbouring data sets of *these* records, one
    canary, and these scores. A claim that is not refuted may still be false. The
    training runs are distributed over the workers that
    ``joblib.parallel_config(n_jobs=...)`` chooses, which may be a Dask cluster.
    Progress is reported to the logger ``dpnotes.auditing``.

    Parameters
    ----------
    train : callable or estimator
        Either a function or an estimator. A function ``train(X, y, seed)`` returns
        everything that is released, for example a fitted model, weights or a number.
        From the result the audit derives these scores, if the result offers them: the
        log-odds or margin of the canary's label, the weights along the canary, the
        length (Euclidean norm) of the result, and the projection of the result on the
        direction in which pilot runs with and without the canary differ. To define your own scores, return a function of records,
        ``lambda X: values``; its values are the scores. All random choices must follow
        from the seed or come from the operating system. If workers would copy a
        generator that the function retains between calls, the audit raises an error. An
        estimator must be unfitted, and may come from any library with scikit-learn's
        conventions. Each of its ``random_state`` parameters receives the seed, and so
        does a ``noise_seed`` that is not None. If ``noise_seed`` is None, the noise
        comes from the operating system, and no two audits are alike.
    X : array_like of numbers, shape [n, ...]
        Features of the records. No guarantee covers the report: to publish it, for
        example in a statement, audit on public or synthetic records.
    y : array_like, shape [n]
        Class labels in their original form, or numbers to predict.
    claim : PrivacyProfile, optional
        The guarantee to test, for data sets of at most n records; its adjacency defines
        the neighbouring data sets. For add-remove, the data set with the canary has one
        record more than the data set without it. For zero-out, ``train`` must treat a record of zeros
        with a label outside the classes (the largest class plus 1, or an empty text) as
        an empty record, as the estimators of this package do. Default: the ``profile_``
        of the fitted estimator. A function has no default claim; the report then
        contains only bounds, for adding or removing one record.
    seconds : float, > 0
        Budget in seconds.
    runs : int, optional
        Budget in training runs, instead of seconds. With such a budget, everything that
        follows from a seed is the same in every repetition.
    confidence : float, in (0, 1)
        Smallest probability with which the bounds hold and a true claim is not refuted.
    domain : float, tuple or list, optional
        The records that the claim allows. A number bounds the Euclidean norm, and a
        tuple (low, high) bounds the features; in both cases the audit tries eight kinds
        of canaries, some of them constructed to fill the ball or the box. If ``domain``
        is a list of records ``(x, label)``, for example with one-hot features, only
        these records are planted. Default: an estimator's ``norm``, if it has one;
        otherwise the ranges and the largest norm of X.
    random_state : int, >= 0
        Seed of the audit. Trying several seeds and reporting the best result is not
        sound.
    memory : mutable mapping, optional
        Mapping that saves the plan and the scores of counted runs under names, as plain
        lists and numbers. An interrupted audit continues from the contents of the
        mapping. A mapping belongs to one audit; contents that visibly come from another
        audit raise an error.

    Returns
    -------
    AuditReport

    Raises
    ------
    TypeError
        If ``train`` is neither a function nor an unfitted estimator, or returns
        nothing.
    ValueError
        If training fails, gives the same result for every seed, or gives no scores; if
        the budget is too small, ``memory`` belongs to another audit, or a parameter is
        outside its range.

    Source
    ------
    Nasr et al. (2023) for worst-case canaries; Jagielski, Ullman and Oprea (2020) for
    choosing on separate runs.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from dpnotes import ModelSensitivity
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = ModelSensitivity(
    ...     2.0, 1e-5, l2=0.1, norm=1.0, noise_seed=0, device="cpu"
    ... )
    >>> report = audit(model, X, y, runs=2000)
    >>> report.refuted, report.runs <= 2000
    (False, True)
    """
    confidence, seconds = (
        check.level("confidence", confidence),
        check.positive("seconds", seconds),
    )
    most = None if runs is None else check.at_least_one("runs", runs)
    random_state = check.at_least("random_state", random_state, 0)
    if claim is not None and not isinstance(claim, PrivacyProfile):
        raise TypeError(
            "claim must be a PrivacyProfile, such as gaussian(sigma=1.0), got"
            f" {type(claim).__name__}"
        )
    X, y = _records(X, y)
    own = last_of(train)
    classes = getattr(own, "classes", None)
    if (
        classes is None
        and isinstance(own, methods.PrivateClassifier)
        and y.dtype.kind in "iuf"
    ):
        if len(np.unique(y)) > check.MOST_CLASSES:
            raise ValueError(f"y must hold labels, got {check.CONTINUOUS}")
    elif classes is not None and not set(y.tolist()) & set(classes):
        raise ValueError(
            "y must have labels among the classes of train, got none: all records would"
            " count as empty"
        )
    norm = (
        train.get_params(deep=False).get("norm")
        if hasattr(train, "get_params")
        else None
    )
    # of other libraries it may be the name of one
    bound = float(norm) if isinstance(norm, Real) else None
    within = Domain.of(X.reshape(len(X), -1), y, domain, norm=bound, classes=classes)
    training = Training.of(train, within.labels)
    if claim is None and training.estimator is not None:
        claim = getattr(last_of(training.fit(X, y, random_state)), "profile_", None)
    runner = Runner(
        training, seconds, most, random_state, {} if memory is None else memory
    )
    if memory is not None:
        _check_it_is_the_same(
            memory,
            {
                "train": (
                    [type(train).__qualname__, repr(train.get_params())]
                    if hasattr(train, "get_params")
                    else [
                        getattr(train, name, None)
                        for name in ("__module__", "__qualname__")
                    ]
                ),
                "X": X,
                "y": y,
                "claim": (
                    claim
                    and [claim.adjacency, *(claim.delta(epsilon) for epsilon in TOLD)]
                ),
                "runs": most,
                "confidence": confidence,
                "domain": domain,
                "random_state": random_state,
            },
        )
    adjacency = "add-remove" if claim is None else claim.adjacency
    found, place = find_canaries(X, y, within)
    keep = np.arange(len(X)) != place
    neighbours = Neighbours(
        X[keep], y[keep], adjacency, _empty(training.labels, adjacency, X)
    )
    report = _Audit(runner, neighbours, within, claim, confidence, random_state).report(
        found
    )
    remarks = [
        f"canaries stay within the allowed records: {within.words}",
        *report.remarks,
    ]
    if runner.errors:
        failed = (
            f"{len(runner.errors)} of {runner.done} runs failed; a failed run has the"
            " score -inf"
        )
        remarks.append(f"{failed}; the first error was {runner.errors[0]}")
    return replace(
        report,
        runs=runner.done + runner.recalled,
        seconds=runner.elapsed,
        remarks=tuple(remarks),
    )


@dataclass(eq=False)
class _Audit:
    """An audit of one training procedure and its claim: pilot runs make a plan, and
    other runs carry it out.
    """

    runner: Runner
    neighbours: Neighbours
    domain: Domain
    claim: PrivacyProfile | None
    confidence: float
    random_state: int

    def report(self, found: list[Canary]) -> AuditReport:
        """Make a plan on pilot runs, unless memory has one, and count other runs."""
        if "plan" not in self.runner.memory:
            self.runner.memory["plan"] = self._plan(found)
        plan = self.runner.memory["plan"]
        return self._counted(plan, found[plan["canary"]])

    def _observers(
        self, canaries: Sequence[Canary], direction: Floats | None = None
    ) -> list[Observer]:
        return [
            Observer(canary.x, canary.label, self.domain.labels, direction)
            for canary in canaries
        ]

    def _pair(self, canary: Canary) -> tuple[Data, Data]:
        """Data sets with and without a canary."""
        return self.neighbours.with_(canary.x, canary.label), self.neighbours.without(
            canary
        )

    # The plan

    def _plan(self, found: list[Canary]) -> dict[str, Any]:
        self._first_runs(found[0])
        left = self.runner.affordable
        if left < (needed := self._needed()):
            raise ValueError(self._too_little(needed))
        chosen = self._pilot(found, int(PILOT * left))
        count = min(int(PLANNED * self.runner.affordable / 2), MOST_RUNS)
        # runs of a kind between two looks at the clock
        return chosen | {
            "count": count,
            "step": max(1, count // 64, min(self.runner.batch, count // 8)),
        }

    def _needed(self) -> float:
        """Fewest runs, pilot runs included, with which one canary can refute the
        claim at all.
        """
        alone = (
            NO_CLAIM
            if self.claim is None
            else runs_needed(
                self.claim, confidence=1 - (1 - self.confidence) * LOOKS[-1][1]
            )
        )
        if math.isinf(alone):
            raise ValueError(
                "claim must be a guarantee that runs can refute; this one allows a test"
                " without errors"
            )
        return math.ceil(2 * alone / (PLANNED * (1 - PILOT))) + 4 * LEAST_PILOT

    def _too_little(self, needed: float) -> str:
        runner, rate = self.runner, self.runner.rate
        enough, given = (
            f"runs must be at least {runner.done + needed:.0f}",
            f"runs={runner.most}",
        )
        if runner.most is None:
            total = math.ceil(runner.elapsed + 1.1 * needed * rate)
            enough = (
                f"seconds must be at least about {total}, for {needed:.0f} training"
                f" runs of {rate:.3g} s,"
            )
            given = f"seconds={runner.seconds:g}"
        return (
            f"{enough} to be able to refute this claim, got {given}; use"
            " auditing.one_run and auditing.lira if you can afford only a few training"
            " runs"
        )

    def _first_runs(self, canary: Canary) -> None:
        """Time a few runs, and check that the training procedure can be audited at
        all.
        """
        data, observers = self._pair(canary)[1], self._observers([canary])
        first = self.runner.warm_up(data, observers)
        if len(first.errors) == first.count:
            raise ValueError(
                "train must run on the records without one of them, got"
                f" {first.errors[0]}"
            )
        self.runner.check_copies(data, observers[0])
        if not first.scores:
            raise ValueError(
                "train must return a result that yields a score: an estimator, a"
                " network, numbers, or a function of records that gives numbers; no"
                " default score fits its result"
            )
        if all(np.isnan(values).all() for values in first.scores.values()):
            raise ValueError(
                f"train must return numbers, got NaN in all of the first {first.count}"
                " runs"
            )

    def _pilot(self, found: list[Canary], budget: int) -> dict[str, Any]:
        """Find, in two rounds, the canary that scores distinguish best; return it,
        its scores and all candidates.
        """

        # of exchanged records each has an opposite of its own
        def sets(canaries: int) -> int:
            return (
                2 * canaries
                if self.neighbours.adjacency == "replace-one"
                else canaries + 1
            )

        while len(found) > 1 and FIRST_ROUND * budget < LEAST_PILOT * sets(len(found)):
            found = found[:-1]
        first = int(
            np.clip(FIRST_ROUND * budget / sets(len(found)), LEAST_PILOT, ENOUGH[0])
        )
        seen = self._seen(found, first)
        self._check(seen)
        told_apart = [_apart(*pair) for pair in seen]
        last = sorted(range(len(found)), key=lambda i: -told_apart[i][0])[:FINALISTS]
        second = int(
            np.clip(
                (1 - FIRST_ROUND) * budget / sets(len(last)), LEAST_PILOT, ENOUGH[1]
            )
        )
        more = self._seen([found[i] for i in last], second)
        for i, pair in zip(last, more, strict=True):
            seen[i] = (
                Runs.joined([seen[i][0], pair[0]]),
                Runs.joined([seen[i][1], pair[1]]),
            )
            told_apart[i] = _apart(*seen[i])
        best = max(last, key=lambda i: (self._promise(*seen[i]), told_apart[i][0]))
        members, others = seen[best]
        names = [name for name in members.scores if name in others.scores]
        if not names:
            none = "no score that runs with and without the canary have in common"
            error = [*members.errors, *others.errors, none][0]
            raise ValueError(
                f"train must run on records with a canary, too, got {error}"
                f" ({found[best].kind})"
            )
        along = _direction(members.numbers, others.numbers)
        tried = {
            "canary": [canary.kind for canary in found],
            "origin": [canary.origin for canary in found],
            "label": [str(canary.label) for canary in found],
            "pilot": [pair[0].count for pair in seen],
            "apart": [distance for distance, _ in told_apart],
            "score": [name for _, name in told_apart],
            "chosen": [i == best for i in range(len(found))],
        }
        if along is None:
            return {"canary": best, "tried": tried, "names": names, "direction": None}
        return {
            "canary": best,
            "tried": tried,
            "names": [*names, "learned direction"],
            "direction": along.tolist(),
        }

    def _promise(self, members: Runs, others: Runs) -> float:
        """Give -log of the claim's p-value on pilot runs if it is small enough to
        choose a canary by, else 0.
        """
        if self.claim is None or not members.scores:
            return 0.0
        kinds = [kind.matrix(list(members.scores)) for kind in (members, others)]
        found = audit_scores(
            *kinds, claim=self.claim, adjacency=self.neighbours.adjacency, holdout=0.5
        )
        return (
            -math.log(max(found.p_value, 1e-300)) if found.p_value < PROMISING else 0.0
        )

    def _seen(self, canaries: Sequence[Canary], count: int) -> list[tuple[Runs, Runs]]:
        """Run with and without each canary; all canaries share the runs without,
        unless each has its own opposite.
        """
        observers = self._observers(canaries)
        with_ = [
            self.runner.run(self._pair(canary)[0], [observer], count, closely=True)[0]
            for canary, observer in zip(canaries, observers, strict=True)
        ]
        if self.neighbours.adjacency == "replace-one":
            each_pair = zip(canaries, observers, strict=True)
            without = [
                self.runner.run(self._pair(c)[1], [o], count, closely=True)[0]
                for c, o in each_pair
            ]
        else:
            without = self.runner.run(
                self._pair(canaries[0])[1], observers, count, closely=True
            )
        return list(zip(with_, without, strict=True))

    def _check(self, seen: Sequence[tuple[Runs, Runs]]) -> None:
        """Check that runs with different seeds have different results.

        Raises
        ------
        ValueError
            If all runs on a data set have the same result, other than answers and
            counts, which may well be equal.
        """
        kinds = [set(kind.prints) for kind in seen[0]]
        if None in kinds[0] | kinds[1] or max(map(len, kinds)) > 1:
            return
        same = all(set(each.prints) == kinds[1] for pair in seen for each in pair)
        count = seen[0][1].count
        text = (
            "train must give results that differ with the seed, got the same result in"
            f" all {count} runs"
        )
        if same:
            raise ValueError(
                f"{text}, with any canary and without a canary: does it use its seed"
                " and its records?"
            )
        raise ValueError(
            f"{text} on the same records: it ignores its seed, or has no randomness;"
            " runs are then not independent, and nothing can be concluded from them. A"
            " training procedure without randomness has no guarantee to audit"
        )

    # What is counted

    def _counted(self, plan: dict[str, Any], canary: Canary) -> AuditReport:
        """Look at the counted runs after each planned number, until the claim is
        refuted or the budget ends.
        """
        along = None if plan["direction"] is None else np.asarray(plan["direction"])
        observer, pair = self._observers([canary], along)[0], self._pair(canary)
        count, names = plan["count"], plan["names"]
        kinds: tuple[list[Floats], list[Floats]] = ([], [])
        report = None
        for fraction, part in LOOKS:
            upto = math.ceil(fraction * count)
            if upto < LEAST or not self._fill(kinds, upto, plan, pair, observer):
                continue
            members, others = (np.concatenate(kind)[:upto] for kind in kinds)
            found = audit_scores(
                members,
                others,
                claim=self.claim,
                confidence=1 - part * (1 - self.confidence),
                adjacency=self.neighbours.adjacency,
                holdout=float(np.clip(HOLDOUT / upto, 0.02, 0.3)),
                names=names,
                random_state=self.random_state,
            )
            assert isinstance(found.evidence, Events)
            report = replace(
                found,
                evidence=Events(found.evidence.chosen, part),
                confidence=self.confidence,
            )
            if report.refuted:
                break
        if report is None:
            raise ValueError(self._too_little(self._needed()))
        remarks = report.remarks
        if sum(map(len, kinds[0])) < count:
            ended = "the claim was refuted" if report.refuted else "the budget ended"
            remarks = (
                f"stopped before the planned {count} runs of each kind: {ended}",
                *remarks,
            )
        tried = [
            pd.DataFrame(plan["tried"]).assign(stage="canary"),
            report.tried.assign(stage="event"),
        ]
        return replace(
            report,
            strategy=(
                f"{report.strategy}; canary: {canary.kind} ({canary.origin}), label"
                f" {canary.label}"
            ),
            tried=pd.concat(tried, ignore_index=True),
            canary=(canary.x, canary.label),
            remarks=remarks,
        )

    def _fill(
        self,
        kinds: tuple[list[Floats], list[Floats]],
        upto: int,
        plan: dict[str, Any],
        pair: tuple[Data, Data],
        observer: Observer,
    ) -> bool:
        """Run both kinds in turn until there are ``upto`` runs of each; return False
        if the budget ends before.
        """
        runner = self.runner
        while (done := sum(map(len, kinds[0]))) < upto:
            size = min(upto - done, plan["step"])
            if runner.over and f"members {done} {size}" not in runner.memory:
                return False
            for k, label in enumerate(("members", "others")):
                name = f"{label} {done} {size}"
                if name in runner.memory:
                    runner.recalled += size
                else:
                    # seeds by a run's place, so that a resumed audit repeats none
                    runner.index = _place(done, k, size)
                    runner.memory[name] = self._scores(
                        pair[k], observer, size, plan["names"]
                    )
                kinds[k].append(np.asarray(runner.memory[name]))
        return True

    def _scores(
        self, data: Data, observer: Observer, size: int, names: list[str]
    ) -> list[list[float]]:
        """Scores of a block of runs; a block that was begun is finished even if the
        time is over.
        """
        parts: list[Floats] = []
        while (left := size - sum(map(len, parts))) > 0:
            parts.append(self.runner.run(data, [observer], left)[0].matrix(names))
        scores: list[list[float]] = np.concatenate(parts).tolist()
        return scores


def _place(done: int, kind: int, size: int) -> int:
    """Index of the first run of a block of ``size`` runs; the block of the other
    kind has as many.
    """
    return COUNTED + 2 * done + kind * size


def _records(X: ArrayLike, y: ArrayLike) -> Data:
    X, y = np.asarray(X), np.asarray(y)
    if (
        X.dtype.kind not in "biuf"
        or X.ndim < 2
        or y.shape != (len(X),)
        or len(X) < 3
        or not np.isfinite(X).all()
    ):
        raise ValueError(
            "X and y must be finite numbers of shape [n >= 3, ...] and labels of shape"
            f" [n], got {X.dtype} of shape {X.shape} and {y.dtype} of shape {y.shape}"
        )
    if pd.isna(y).any():
        raise ValueError("y must hold no missing labels")
    return X, y


def _empty(labels: NDArray[Any], adjacency: str, X: NDArray[Any]) -> Record | None:
    """Record that contributes nothing, under zero-out; else None."""
    if adjacency != "zero-out":
        return None
    label = int(np.max(labels)) + 1 if labels.dtype.kind in "biuf" else ""
    return np.zeros_like(X[0]), label


def _check_it_is_the_same(
    memory: MutableMapping[str, Any], settings: dict[str, Any]
) -> None:
    """Check that the memory belongs to this audit."""
    ours = {name: str(joblib.hash(value)) for name, value in settings.items()}
    if "of" not in memory:
        memory["of"] = ours
    if wrong := [
        name for name, digest in ours.items() if memory["of"].get(name) != digest
    ]:
        raise ValueError(
            "memory must be empty or from the same audit, got one with another"
            f" {' and '.join(wrong)}"
        )


def _apart(members: Runs, others: Runs) -> tuple[float, str]:
    """Distance of two kinds of pilot runs by the score that separates them best, in
    units of mu, and its name.
    """
    best = (-math.inf, "")
    for name in members.scores:
        if name in others.scores:
            best = max(
                best,
                (
                    _distance(
                        *(kind.matrix([name])[:, 0] for kind in (members, others))
                    ),
                    name,
                ),
            )
    return best


def _distance(a: Floats, b: Floats) -> float:
    """The larger of two distances, minus a standard error: between means, and from
    the gap between distributions.
    """
    error = math.sqrt(1 / len(a) + 1 / len(b))
    gap = (
        stats.ks_2samp(a, b, method="asymp").statistic
        if np.isfinite(a).all() and np.isfinite(b).all()
        else float(np.mean(np.isfinite(a)) - np.mean(np.isfinite(b)))
    )
    by_gap = 2 * float(
        special.ndtri((1 + min(max(abs(gap) - error, 0.0), 1 - 1e-9)) / 2)
    )
    finite = [kind[np.isfinite(kind)] for kind in (a, b)]
    if min(map(len, finite)) < 2:
        return by_gap
    scale = math.sqrt(sum(kind.var() for kind in finite) / 2)
    difference = abs(finite[0].mean() - finite[1].mean())
    by_means = (
        difference / scale
        if scale > 1e-12 * max(difference, 1e-300)
        else (math.inf if difference > 0 else 0.0)
    )
    return max(by_gap, by_means - error)


def _direction(members: Floats | None, others: Floats | None) -> Floats | None:
    """Direction in which two kinds of pilot runs differ, each number divided by its
    variance; None if unknown.
    """
    if (
        members is None
        or others is None
        or members.shape[1:] != others.shape[1:]
        or members.shape[1] < 2
    ):
        return None
    variance = (members.var(axis=0) + others.var(axis=0)) / 2
    if not np.isfinite(variance).all() or not variance.any():
        return None
    found = (members.mean(axis=0) - others.mean(axis=0)) / (
        variance + 1e-3 * variance.mean()
    )
    length = float(np.linalg.norm(found))
    return found / length if 0 < length < math.inf else None
