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

from dpnotes import _validation as check, methods
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
from dpnotes.auditing._scores import LARGEST_SCORE, audit_scores, runs_needed
from dpnotes.auditing._training import Runner, Runs, Training, last_of

# of the budget: to choose on; and of what is left then, to count on
PILOT = 0.25
PLANNED = 0.85
# of the pilot, for all canaries; how many of them get the rest
FIRST_ROUND = 0.4
FINALISTS = 3
ENOUGH = (2000, 5000)  # runs on one data set in the two rounds
LEAST_PILOT = 6  # runs on one data set
PROMISING = 0.2  # p-value on pilot runs from which it decides between canaries
# counted, of each kind: at most; as many as give a bound worth having
MOST_RUNS = 200_000
NO_CLAIM = 20
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
        direction in which pilot runs with and without the canary differ. To define your
        own scores, return a function of records, ``lambda X: values``; its values are
        the scores. All random choices must follow from the seed or come from the
        operating system. If workers would copy a generator that the function retains
        between calls, the audit raises an error. An estimator must be unfitted, and may
        come from any library with scikit-learn's conventions. Each of its
        ``random_state`` parameters receives the seed, and so does a ``noise_seed`` that
        is not None. If ``noise_seed`` is None, the noise comes from the operating
        system, and no two audits are alike.
    X : array_like of numbers, shape [n, ...]
        Features of the records. No guarantee covers the report: to publish it, for
        example in a statement, audit on public or synthetic records.
    y : array_like, shape [n]
        Class labels in their original form, or numbers to predict.
    claim : PrivacyProfile, optional
        The guarantee to test, for data sets of at most n records; its adjacency defines
        the neighbouring data sets. For add-remove, the data set with the canary has one
        record more than the data set without it. For zero-out, ``train`` must treat a
        record of zeros with a label outside the classes (the largest class plus 1, the
        smallest less 1 if there is no larger integer, or an empty text) as an empty
        record, as the estimators of this package do. Default: the ``profile_`` of the
        fitted estimator. A function has no default claim; the report then contains only
        bounds, for adding or removing one record.
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
    confidence = check.level("confidence", confidence)
    seconds = check.positive("seconds", seconds)
    if runs is not None:
        runs = check.at_least_one("runs", runs)
    random_state = check.at_least("random_state", random_state, 0)
    if claim is not None and not isinstance(claim, PrivacyProfile):
        raise TypeError(
            "claim must be a PrivacyProfile, such as gaussian(sigma=1.0), got"
            f" {type(claim).__name__}"
        )
    X, y = _records(X, y)
    own = last_of(train)
    classes = getattr(own, "classes", None)
    _check_labels(y, classes, own)
    # in other libraries it may be the name of a norm
    norm = getattr(train, "norm", None)
    bound = float(norm) if isinstance(norm, Real) else None
    within = Domain.of(X.reshape(len(X), -1), y, domain, norm=bound, classes=classes)
    # a canary may have a label that does not occur in y
    training = Training.of(train, within.labels)
    if claim is None and training.estimator is not None:
        # one fit for its profile, which is the guarantee that the estimator states
        claim = getattr(last_of(training.fit(X, y, random_state)), "profile_", None)
    memory = {} if memory is None else memory
    runner = Runner(training, seconds, runs, random_state, memory)
    _check_memory(
        memory,
        train=_described(train),
        X=X,
        y=y,
        claim=claim and [claim.adjacency, *map(claim.delta, TOLD)],
        runs=runs,
        confidence=confidence,
        domain=domain,
        random_state=random_state,
    )
    adjacency = "add-remove" if claim is None else claim.adjacency
    found, place = find_canaries(X, y, within)
    # all canaries take the place of one record, so that the other records are the same
    others = np.arange(len(X)) != place
    empty: Record | None = None
    if adjacency == "zero-out":
        # a label beyond the classes, so that the record contributes nothing
        label: int | str = ""
        if within.labels.dtype.kind in "biuf":
            label = int(within.labels.max()) + 1
            # the largest integer has no next one
            if label > np.iinfo(np.int64).max:
                label = int(within.labels.min()) - 1
        empty = np.zeros_like(X[0]), label
    neighbours = Neighbours(X[others], y[others], adjacency, empty)
    audited = _Audit(runner, neighbours, within, claim, confidence, random_state)
    report = audited.report(found)
    remarks = [f"canaries stay within the allowed records: {within.words}"]
    remarks += report.remarks
    if runner.errors:
        remarks.append(
            f"{len(runner.errors)} of {runner.done} runs failed; a failed run has the"
            f" score -inf; the first error was {runner.errors[0]}"
        )
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
        memory = self.runner.memory
        if "plan" not in memory:
            memory["plan"] = self._plan(found)
        return self._counted(memory["plan"], found[memory["plan"]["canary"]])

    def _observer(self, canary: Canary, direction: Floats | None = None) -> Observer:
        return Observer(canary.x, canary.label, self.domain.labels, direction)

    # The plan

    def _plan(self, found: list[Canary]) -> dict[str, Any]:
        self._first_runs(found[0])
        # what the budget still allows when a run's time is known
        left = self.runner.affordable
        needed = self._needed()
        if left < needed:
            raise ValueError(self._too_little(needed))
        plan = self._pilot(found, int(PILOT * left))
        # runs of a kind; the rest of the budget is for what takes longer than it was
        # timed
        count = min(int(PLANNED * self.runner.affordable / 2), MOST_RUNS)
        # runs of a kind between two looks at the clock
        step = max(1, count // 64, min(self.runner.batch, count // 8))
        return plan | {"count": count, "step": step}

    def _needed(self) -> float:
        """Fewest runs, pilot runs included, with which one canary can refute the
        claim at all.
        """
        alone: float = NO_CLAIM
        if self.claim is not None:
            # the last look has most of what may fail
            level = (1 - self.confidence) * LOOKS[-1][1]
            alone = runs_needed(self.claim, confidence=1 - level)
        if math.isinf(alone):
            raise ValueError(
                "claim must be a guarantee that runs can refute; this one allows a test"
                " without errors"
            )
        # of both kinds, with the pilot and its first runs
        return math.ceil(2 * alone / (PLANNED * (1 - PILOT))) + 4 * LEAST_PILOT

    def _too_little(self, needed: float) -> str:
        runner = self.runner
        if runner.most is None:
            total = math.ceil(runner.elapsed + 1.1 * needed * runner.rate)
            text = (
                f"seconds must be at least about {total}, for {needed:.0f} training"
                f" runs of {runner.rate:.3g} s, to be able to refute this claim, got"
                f" seconds={runner.seconds:g}"
            )
        else:
            text = (
                f"runs must be at least {runner.done + needed:.0f} to be able to"
                f" refute this claim, got runs={runner.most}"
            )
        return f"{text}; accounting.one_run_audit bounds epsilon from a single run"

    def _first_runs(self, canary: Canary) -> None:
        """Time a few runs, and check that the training procedure can be audited at
        all.
        """
        data = self.neighbours.without(canary)
        observer = self._observer(canary)
        first = self.runner.warm_up(data, [observer])
        if len(first.errors) == first.count:
            raise ValueError(
                "train must run on the records without one of them, got"
                f" {first.errors[0]}"
            )
        # before any run is counted: workers that repeat each other would make a false
        # refutation
        self.runner.check_copies(data, observer)
        if not first.names:
            raise ValueError(
                "train must return a result that yields a score: an estimator, a"
                " network, numbers, or a function of records that gives numbers; no"
                " default score fits its result"
            )
        values: list[float] = []
        for row in first.scores:
            values += row.values()
        if np.isnan(values).all():
            raise ValueError(
                f"train must return numbers, got NaN in all of the first {first.count}"
                " runs"
            )

    def _pilot(self, found: list[Canary], budget: int) -> dict[str, Any]:
        """Find, in two rounds, the canary that scores distinguish best; return it,
        its scores and all candidates.
        """
        # where the budget is small, fewer canaries are tried, each with enough runs
        part = FIRST_ROUND * budget
        while len(found) > 1 and part < LEAST_PILOT * self._data_sets(len(found)):
            found = found[:-1]
        seen = self._seen(found, part, ENOUGH[0])
        _check_randomness(seen)
        apart = [_apart(*pair) for pair in seen]
        # the rest of the pilot is for those that scores tell apart best
        last = sorted(range(len(found)), key=lambda i: -apart[i][0])[:FINALISTS]
        more = self._seen([found[i] for i in last], budget - part, ENOUGH[1])
        promise = {}
        for i, pair in zip(last, more, strict=True):
            members = Runs.joined([seen[i][0], pair[0]])
            others = Runs.joined([seen[i][1], pair[1]])
            seen[i] = members, others
            apart[i] = _apart(members, others)
            promise[i] = self._promise(members, others), apart[i][0]
        # by the claim where the pilot already speaks against it, else by distance
        best = max(last, key=promise.__getitem__)
        members, others = seen[best]
        # only scores that both kinds of runs have can be compared
        names = [name for name in members.names if name in others.names]
        if not names:
            none = "no score that runs with and without the canary have in common"
            error = [*members.errors, *others.errors, none][0]
            raise ValueError(
                f"train must run on records with a canary, too, got {error}"
                f" ({found[best].kind})"
            )
        tried = []
        for canary, runs, distance in zip(found, seen, apart, strict=True):
            row = {
                "canary": canary.kind,
                "origin": canary.origin,
                "label": str(canary.label),
                "pilot": runs[0].count,
                "apart": distance[0],
                "score": distance[1],
                "chosen": canary is found[best],
            }
            tried.append(row)
        direction = _direction(members.stacked(), others.stacked())
        if direction is not None:
            names.append("learned direction")
        return {"canary": best, "tried": tried, "names": names, "direction": direction}

    def _promise(self, members: Runs, others: Runs) -> float:
        """Give -log of the claim's p-value on pilot runs if it is small enough to
        choose a canary by, else 0.
        """
        names = members.names
        if self.claim is None or not names:
            return 0.0
        p_value = audit_scores(
            members.matrix(names),
            others.matrix(names),
            claim=self.claim,
            adjacency=self.neighbours.adjacency,
            # pilot runs are few: half of them choose the event
            holdout=0.5,
        ).p_value
        return -math.log(max(p_value, 1e-300)) if p_value < PROMISING else 0.0

    def _data_sets(self, canaries: int) -> int:
        """Number of data sets that canaries need; of exchanged records each has an
        opposite of its own.
        """
        exchanged = self.neighbours.adjacency == "replace-one"
        return 2 * canaries if exchanged else canaries + 1

    def _seen(
        self, canaries: Sequence[Canary], budget: float, most: int
    ) -> list[tuple[Runs, Runs]]:
        """Run with and without each canary, at most ``most`` times on each data set.
        All canaries share the runs without, unless each has its own opposite.
        """
        share = budget / self._data_sets(len(canaries))
        count = int(np.clip(share, LEAST_PILOT, most))
        observers = [self._observer(canary) for canary in canaries]
        run = self.runner.run
        neighbours = self.neighbours
        members = []
        for canary, own in zip(canaries, observers, strict=True):
            members += run(neighbours.with_(*canary.record), [own], count, closely=True)
        # without a canary the data set is the same for all of them
        if neighbours.adjacency != "replace-one":
            data = neighbours.without(canaries[0])
            others = run(data, observers, count, closely=True)
        else:
            others = []
            for canary, own in zip(canaries, observers, strict=True):
                others += run(neighbours.without(canary), [own], count, closely=True)
        return list(zip(members, others, strict=True))

    # What is counted

    def _counted(self, plan: dict[str, Any], canary: Canary) -> AuditReport:
        """Look at the counted runs after each planned number, until the claim is
        refuted or the budget ends.
        """
        direction = plan["direction"]
        observer = self._observer(
            canary, None if direction is None else np.asarray(direction)
        )
        pair = (
            self.neighbours.with_(*canary.record),
            self.neighbours.without(canary),
        )
        kinds: tuple[list[Floats], list[Floats]] = ([], [])
        report = None
        for fraction, part in LOOKS:
            upto = math.ceil(fraction * plan["count"])
            # too few for a look, or the budget ended in between
            if upto < LEAST or not self._fill(kinds, upto, plan, pair, observer):
                continue
            members, others = (np.concatenate(kind)[:upto] for kind in kinds)
            report = audit_scores(
                members,
                others,
                claim=self.claim,
                # each look spends its part of what may fail
                confidence=1 - part * (1 - self.confidence),
                adjacency=self.neighbours.adjacency,
                holdout=float(np.clip(HOLDOUT / upto, 0.02, 0.3)),
                names=plan["names"],
                random_state=self.random_state,
            )
            report = replace(report, part=part, confidence=self.confidence)
            if report.refuted:
                break
        # the budget ended before the first look
        if report is None:
            raise ValueError(self._too_little(self._needed()))
        remarks = report.remarks
        if sum(map(len, kinds[0])) < plan["count"]:
            ended = "the claim was refuted" if report.refuted else "the budget ended"
            early = f"stopped before the planned {plan['count']} runs of each kind"
            remarks = (f"{early}: {ended}", *remarks)
        tried = [
            pd.DataFrame(plan["tried"]).assign(stage="canary"),
            report.tried.assign(stage="event"),
        ]
        planted = f"canary: {canary.kind} ({canary.origin}), label {canary.label}"
        return replace(
            report,
            strategy=f"{report.strategy}; {planted}",
            tried=pd.concat(tried, ignore_index=True),
            canary=canary.record,
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
        # blocks of runs have names, by which a resumed audit finds them again
        done = sum(map(len, kinds[0]))
        while done < upto:
            size = min(upto - done, plan["step"])
            if runner.over and f"members {done} {size}" not in runner.memory:
                return False
            for k, label in enumerate(("members", "others")):
                name = f"{label} {done} {size}"
                if name in runner.memory:
                    runner.recalled += size
                else:
                    # seeds by a run's place, so that a resumed audit repeats none
                    runner.index = COUNTED + 2 * done + k * size
                    scores = self._scores(pair[k], observer, size, plan["names"])
                    runner.memory[name] = scores.tolist()
                kinds[k].append(np.asarray(runner.memory[name]))
            done += size
        return True

    def _scores(
        self, data: Data, observer: Observer, size: int, names: list[str]
    ) -> Floats:
        """Scores of a block of runs; a block that was begun is finished even if the
        time is over.
        """
        parts: list[Floats] = []
        left = size
        while left > 0:
            parts.append(self.runner.run(data, [observer], left)[0].matrix(names))
            left -= len(parts[-1])
        return np.concatenate(parts)


def _records(X: ArrayLike, y: ArrayLike) -> Data:
    X = np.asarray(X)
    y = np.asarray(y)
    numbers = X.dtype.kind in "biuf" and X.ndim >= 2 and np.isfinite(X).all()
    if not numbers or y.shape != (len(X),) or len(X) < 3:
        raise ValueError(
            "X and y must be finite numbers of shape [n >= 3, ...] and labels of shape"
            f" [n], got {X.dtype} of shape {X.shape} and {y.dtype} of shape {y.shape}"
        )
    if pd.isna(y).any():
        raise ValueError("y must hold no missing labels")
    return X, y


def _check_labels(y: NDArray[Any], classes: Any, own: Any) -> None:
    """Check that records do not all count as empty."""
    if classes is not None and not set(y.tolist()) & set(classes):
        raise ValueError(
            "y must have labels among the classes of train, got none: all records would"
            " count as empty"
        )
    # other libraries' estimators may fit numbers
    inferred = classes is None and isinstance(own, methods.PrivateClassifier)
    many = len(np.unique(y)) > check.MOST_CLASSES
    if inferred and many and y.dtype.kind in "iuf":
        raise ValueError(f"y must hold labels, got {check.CONTINUOUS}")


def _described(train: Any) -> list[str]:
    """What tells one training procedure from another."""
    if hasattr(train, "get_params"):
        return [type(train).__qualname__, repr(train.get_params())]
    return [str(getattr(train, name, "")) for name in ("__module__", "__qualname__")]


def _check_memory(memory: MutableMapping[str, Any], **settings: Any) -> None:
    """Check that the memory belongs to the audit with these settings."""
    ours = {name: str(joblib.hash(value)) for name, value in settings.items()}
    if "of" not in memory:
        memory["of"] = ours
    wrong = [name for name in ours if memory["of"].get(name) != ours[name]]
    if wrong:
        raise ValueError(
            "memory must be empty or from the same audit, got one with another"
            f" {' and '.join(wrong)}"
        )


def _check_randomness(seen: Sequence[tuple[Runs, Runs]]) -> None:
    """Check that runs with different seeds have different results.

    Raises
    ------
    ValueError
        If all runs on a data set have the same result, other than answers and counts,
        which may well be equal.
    """
    members, others = seen[0]
    # None where results may be equal by chance
    prints = set(others.prints)
    if None in prints or len(prints) > 1 or len(set(members.prints)) > 1:
        return
    text = (
        "train must give results that differ with the seed, got the same result in all"
        f" {others.count} runs"
    )
    # with a canary the result is still the same: the records do not matter, either
    alike = True
    for with_canary, without in seen:
        alike = alike and prints == set(with_canary.prints) == set(without.prints)
    if alike:
        raise ValueError(
            f"{text}, with any canary and without a canary: does it use its seed and"
            " its records?"
        )
    raise ValueError(
        f"{text} on the same records: it ignores its seed, or has no randomness; runs"
        " are then not independent, and nothing can be concluded from them. A training"
        " procedure without randomness has no guarantee to audit"
    )


def _apart(members: Runs, others: Runs) -> tuple[float, str]:
    """Distance of two kinds of pilot runs by the score that separates them best, in
    units of mu, and its name.
    """
    best = (-math.inf, "")
    for name in members.names:
        if name in others.names:
            one, other = (runs.matrix([name])[:, 0] for runs in (members, others))
            best = max(best, (_distance(one, other), name))
    return best


def _distance(one: Floats, other: Floats) -> float:
    """The larger of two distances, minus a standard error: between means, and from
    the gap between distributions.
    """
    error = math.sqrt(1 / len(one) + 1 / len(other))
    # a gap between distributions as the mu of Gaussian noise with this total variation
    gap = float(stats.ks_2samp(one, other, method="asymp").statistic)
    by_gap = 2 * float(special.ndtri((1 + min(max(gap - error, 0.0), 1 - 1e-9)) / 2))
    # a failed run has the score -inf
    one = one[np.abs(one) < LARGEST_SCORE]
    other = other[np.abs(other) < LARGEST_SCORE]
    if min(len(one), len(other)) < 2:
        return by_gap
    difference = float(abs(one.mean() - other.mean()))
    # in standard deviations, as mu is; less an error, so that few runs promise less
    scale = math.sqrt((one.var() + other.var()) / 2)
    if scale <= 1e-12 * difference:
        return math.inf if difference > 0 else by_gap
    return max(by_gap, difference / scale - error)


def _direction(members: Floats | None, others: Floats | None) -> list[float] | None:
    """Direction in which two kinds of pilot runs differ, each number divided by its
    variance; None if unknown.
    """
    if members is None or others is None:
        return None
    if members.shape[1] != others.shape[1] or members.shape[1] < 2:
        return None
    if not (np.abs(np.vstack([members, others])) < LARGEST_SCORE).all():
        return None
    variance = (members.var(axis=0) + others.var(axis=0)) / 2
    if not variance.any():
        return None
    apart = members.mean(axis=0) - others.mean(axis=0)
    # where numbers vary most the difference tells least; a small ridge for those that
    # hardly vary
    direction = apart / (variance + 1e-3 * variance.mean())
    length = float(np.linalg.norm(direction))
    if not 0 < length < math.inf:
        return None
    found: list[float] = (direction / length).tolist()
    return found
