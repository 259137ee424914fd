"""``dpnotes.audit``: a training, its records and a claim; within a budget, whether the claim is refuted."""

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

from dpnotes import _validation as check
from dpnotes import methods
from dpnotes._validation import Booleans, Floats
from dpnotes.accounting import PrivacyProfile
from dpnotes.auditing._canaries import Canary, Domain, Neighbours, Record, find_canaries, many_canaries, opposite
from dpnotes.auditing._counting import LOOKS, Counted
from dpnotes.auditing._lira import lira
from dpnotes.auditing._observing import Observer, Score
from dpnotes.auditing._one_run import one_run
from dpnotes.auditing._report import AuditReport
from dpnotes.auditing._runner import Runner
from dpnotes.auditing._scores import audit_scores, checked_confidence, runs_adjacency, runs_needed
from dpnotes.auditing._telling import apart, direction
from dpnotes.auditing._training import Data, Runs, Training, code_of

STRATEGIES = ("auto", "many runs", "betting", "one run", "lira")
PILOT, PLANNED = 0.25, 0.85  # of the budget: to choose on; and of what is left then, to count on
FIRST_ROUND, FINALISTS = 0.4, 3  # of the pilot, for all canaries; how many of them get the rest
ENOUGH = (2000, 5000)  # runs on one data set in the two rounds
LEAST_PILOT = 6  # runs on one data set
SURE_OF_ANSWERS = 30  # equal runs of single answers, which may be equal by chance
MOST_RUNS = 200_000  # counted on
SLOW = 1.0  # seconds of one training from which it matters more to stop early than to bound closely
SHADOWS = 12  # runs with which likelihood ratios can be fitted
PROMISING = 0.2  # p-value on pilot runs from which it decides between canaries
MANY_CANARIES, FEWEST_CANARIES = 500, 20
PREFERRED = ("score", "margin", "log-odds of the label", "along the canary", "votes for the label")
TOLD = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0)  # epsilons whose deltas tell one claim from another
TRIAL = 0.05  # of the seconds, to time runs that come one by one
NO_CLAIM = 20  # runs of each kind that give a bound worth having


def audit(
    train: Any,
    X: ArrayLike,
    y: ArrayLike,
    *,
    claim: PrivacyProfile | None = None,
    seconds: float = 120.0,
    runs: int | None = None,
    confidence: float = 0.95,
    score: Score | None = None,
    canaries: Sequence[str | Record] | None = None,
    strategy: str = "auto",
    adjacency: str | None = None,
    norm: float | None = None,
    bounds: tuple[ArrayLike, ArrayLike] | None = None,
    classes: Sequence[Any] | None = None,
    empty: Record | None = None,
    n_jobs: int = 1,
    random_state: int = 0,
    progress: bool = False,
    memory: MutableMapping[str, Any] | None = None,
) -> AuditReport:
    """Train again and again on neighbouring data sets, and tell whether what is seen refutes a claim.

    Guarantees: over the randomness of the runs, with probability at least ``confidence`` the bounds of the report hold
    and a true claim is not refuted, whatever the training, the records, the score and the time that runs take, if the
    canary is a record that the claim allows (``norm``, ``bounds`` and ``classes`` say which it does, and constructed
    canaries fill the box and the ball: of other domains give ``canaries``). The argument: canary, scores and the number
    of runs are chosen on pilot runs, which are not counted. Given these, the counted runs are independent, and looked
    at after 1/16, 1/4, 1/2, 3/4 and all of the planned number, with 5, 10, 10, 15 and 60 % of what may fail; which look
    is reported may depend on anything. Within a look :func:`audit_scores` pays for all scores; betting and audits of
    one run pay as :class:`Betting` and :func:`one_run` say.

    It audits what was run: neighbours of *these* records, one canary, this score. A claim that is not refuted may be
    false all the same.

    Parameters
    ----------
    train : callable or estimator
        ``train(X, y, seed)`` gives whatever is released: a fitted model, weights, a number, a function that answers.
        All its random choices must follow the seed, or be the operating system's; a generator that it keeps between
        calls is refused where workers would copy it. Or an unfitted estimator of any
        library with scikit-learn's conventions: each ``random_state`` of it gets the seed, and so does a
        ``noise_seed`` that is not None; without one the noise is the operating system's, and no audit is like the next.
    X : array_like of numbers, shape [n, ...]
    y : array_like, shape [n]
        Classes, or numbers.
    claim : PrivacyProfile, optional
        For data sets of at most n records. Default: the ``profile_`` of the fitted estimator; of a function none, and
        the report has bounds only.
    seconds : float, > 0
    runs : int, optional
        Budget in trainings, in place of seconds: then all that follows a seed is the same each time.
    confidence : float, in (0, 1)
    score : callable, optional
        ``score(result, x, label)`` gives a number that tells members from others. Default: log-odds or margin of the
        canary's label, votes for it, weights along the canary, the direction in which pilot runs with and without it
        differ: whatever the result offers.
    canaries : sequence, optional
        Kinds of canaries (those tried by default stand in the report's ``tried``), or records ``(x, label)``.
    strategy : {"auto", "many runs", "betting", "one run", "lira"}
        "many runs": with and without one canary. "betting": the same, stopping as soon as the claim falls. "one run":
        many canaries, each in or out by a coin, in a few runs together. "lira": likewise, by likelihood ratios of
        shadow runs. "auto": by how many trainings the budget allows; the report tells.
    adjacency : {"add-remove", "zero-out", "replace-one"}, optional
        Of the neighbours, which must be that of the claim. Default: that, or add-remove.
    norm : float, > 0, optional
        Public bound on the Euclidean norm of a record. Default: an estimator's ``norm``, if it has one.
    bounds : tuple of array_like, optional
        Public bounds (low, high) of each feature, flat. Without either bound, canaries keep those of the records.
    classes : sequence, optional
        All labels that can occur. Default: those of y.
    empty : tuple, optional
        Features and label of the record that ``train`` takes as empty, for zero-out alone. Of our estimators it is
        known.
    n_jobs : int
        joblib workers, whose global generators get seeds; ``joblib.parallel_config`` chooses others, a Dask cluster
        among them.
    random_state : int, >= 0
        To try several and report the best is not sound.
    progress : bool
        Tell on standard error how far it is.
    memory : mutable mapping, optional
        Where the plan and the scores of counted runs of "many runs" and "betting" are kept under names, as plain lists
        and numbers: an audit that was interrupted goes on with what is there. It is of one audit; what is seen to be of
        another is refused.

    Returns
    -------
    AuditReport

    Raises
    ------
    TypeError
        If ``train`` is neither, or returns nothing.
    ValueError
        If training fails, gives the same result for every seed or results of earlier runs again, or no scores; if the
        budget is too small, the claim is about other neighbours, a canary is not allowed, ``memory`` is of another
        audit, or a parameter is outside its range.

    Source
    ------
    Nasr et al. (2023) for canaries of worst case; Jagielski, Ullman and Oprea (2020) for choosing on other runs.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from dpnotes import ModelSensitivity
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = ModelSensitivity(2.0, 1e-5, l2=0.1, norm=1.0, noise_seed=0, device="cpu")
    >>> report = audit(model, X, y, runs=2000)
    >>> report.refuted, report.runs <= 2000
    (False, True)
    """
    check.one_of("strategy", strategy, STRATEGIES)
    confidence, seconds = checked_confidence(confidence), check.positive("seconds", seconds)
    most = None if runs is None else check.at_least_one("runs", runs)
    random_state = check.at_least("random_state", random_state, 0)
    if n_jobs == 0:
        raise ValueError("n_jobs must be a number of workers, or negative: all but so many, got n_jobs=0")
    if claim is not None and not isinstance(claim, PrivacyProfile):
        raise TypeError(f"claim must be a PrivacyProfile, such as gaussian(sigma=1.0), got {type(claim).__name__}")
    X, y = _records(X, y)
    if norm is None and hasattr(train, "get_params"):
        own = train.get_params(deep=False).get("norm")
        norm = float(own) if isinstance(own, Real) else None  # of other libraries it may be the name of one
    classes = getattr(train, "classes", None) if classes is None else classes
    domain = Domain.of(X.reshape(len(X), -1), y, norm=norm, bounds=bounds, classes=classes)
    training = Training.of(train, domain.labels)
    if claim is None and training.estimator is not None:
        claim = getattr(training.fit(X, y, random_state), "profile_", None)
    if claim is None and strategy == "betting":
        raise ValueError("claim must be given for strategy='betting', which bets against it")
    adjacency = runs_adjacency(claim, adjacency)
    runner = Runner(training, seconds, most, n_jobs, random_state, progress, memory)
    empty = _empty(training, adjacency, X, domain.labels, empty)
    setting = _Setting(runner, X, y, domain, claim, confidence, adjacency, empty, score, random_state)
    if memory is not None:
        about = [X, y, domain.low, domain.high, domain.norm, domain.labels, confidence, adjacency, empty, strategy]
        about += [canaries, most, random_state, code_of(train), code_of(score)]
        digest = joblib.hash([*about, claim and [claim.delta(epsilon) for epsilon in TOLD]])
        if memory.setdefault("of", digest) != digest:
            raise ValueError(
                "memory must be empty or of the same audit, got that of another training, table or setting"
            )
    report = setting.audit(strategy, canaries)
    remarks = [*setting.remarks, *report.remarks]
    if runner.errors:
        remarks.append(f"{len(runner.errors)} of {runner.done} runs failed and count as such: {runner.errors[0]}")
    return replace(
        report,
        confidence=confidence,
        runs=runner.done + runner.recalled,
        seconds=runner.elapsed,
        remarks=tuple(dict.fromkeys(remarks)),
    )


@dataclass(eq=False)
class _Setting:
    """One audit: what is trained on what, what is claimed, and the strategies."""

    runner: Runner
    X: NDArray[Any]
    y: NDArray[Any]
    domain: Domain
    claim: PrivacyProfile | None
    confidence: float
    adjacency: str
    empty: Record | None
    score: Score | None
    random_state: int

    def __post_init__(self) -> None:
        self.remarks: list[str] = []

    def audit(self, strategy: str, wanted: Sequence[str | Record] | None) -> AuditReport:
        """Try a few runs, choose the strategy by their time, and follow it."""
        found, place = find_canaries(self.X, self.y, self.domain, wanted)
        keep = np.arange(len(self.X)) != place
        self.neighbours = Neighbours(self.X[keep], self.y[keep], self.adjacency, self.empty)
        plan = self.runner.memory
        if plan is not None and "plan" in plan:
            chosen = plan["plan"]
            return self._count(chosen, found[chosen["canary"]], pd.DataFrame(chosen["tried"]))
        self._first_runs(found)
        left, needed = self.runner.affordable, self._needed()
        chosen_strategy = self._chosen(strategy, left, needed)
        if chosen_strategy in ("one run", "lira"):
            return self._many_canaries(chosen_strategy, left)
        if left < needed:
            raise ValueError(self._too_little(chosen_strategy, needed))
        return self._many_runs(chosen_strategy, found, left)

    def _chosen(self, strategy: str, left: int, needed: float) -> str:
        if strategy != "auto":
            return strategy
        if math.isinf(needed):
            raise ValueError(self._too_little("many runs", needed))
        if left >= needed:
            slow = self.claim is not None and self.runner.most is None and self.runner.rate > SLOW
            return "betting" if slow else "many runs"
        if len(self.X) < 4 * NO_CLAIM:
            raise ValueError(self._too_little("many runs", needed))
        self.remarks.append(self._too_little("many runs", needed) + "; so many canaries share a few runs")
        return "lira" if left >= SHADOWS else "one run"

    def _needed(self) -> float:
        """Runs with which one canary can refute the claim at all, those that are chosen on included."""
        alone = NO_CLAIM if self.claim is None else runs_needed(
            self.claim, confidence=1 - (1 - self.confidence) * LOOKS[-1][1])  # fmt: skip
        if math.isinf(alone):
            return alone
        return math.ceil(2 * alone / (PLANNED * (1 - PILOT))) + 4 * LEAST_PILOT

    def _too_little(self, strategy: str, needed: float) -> str:
        if math.isinf(needed):
            return "no number of runs refutes this claim, which allows a test without errors"
        for_what = f"for {strategy!r} to be able to refute this claim"
        if self.runner.most is not None:
            return f"runs must be at least {self.runner.done + needed:.0f} {for_what}, got runs={self.runner.most}"
        enough = math.ceil(self.runner.elapsed + 1.1 * needed * self.runner.rate)
        cost = f"{needed:.0f} trainings of {self.runner.rate:.3g} s"
        return f"seconds must be at least about {enough} {for_what} ({cost}), got seconds={self.runner.seconds:g}"

    def _observers(self, canaries: Sequence[Canary], direction: Floats | None = None) -> list[Observer]:
        return [Observer(canary.x, canary.label, self.domain.labels, self.score, direction) for canary in canaries]

    def _pair(self, canary: Canary) -> tuple[Data, Data]:
        """Data sets with and without a canary."""
        return (
            self.neighbours.with_((canary.x, canary.label)),
            self.neighbours.without(opposite(canary, self.domain)),
        )

    def _first_runs(self, found: Sequence[Canary]) -> None:
        """A few runs that are timed, and show whether training can be audited at all."""
        data, observers = self._pair(found[0])[1], self._observers(found[:1])
        first = self.runner.warm_up(data, observers)
        if len(first.errors) == first.count:
            raise ValueError(f"train must run on the records less one, got {first.errors[0]}")
        self.runner.check_copies(data, observers[0])
        if not first.scores:
            raise ValueError(
                "train must return what a score can be read off (an estimator, a network, numbers, a function of X), "
                "or score= must be given; no default score fits its result"
            )
        if all(np.isnan(values).all() for values in first.scores.values()):
            raise ValueError(f"score must give numbers, got NaN in all of the first {first.count} runs")

    # One canary, many runs

    def _many_runs(self, strategy: str, found: list[Canary], left: int) -> AuditReport:
        chosen, tried = self._pilot(found, int(PILOT * left))
        count = min(int(PLANNED * self.runner.affordable / 2), MOST_RUNS)
        step = max(1, count // 64, min(self.runner.batch, count // 8))  # runs of a kind between two looks at the clock
        plan = {**chosen, "count": count, "step": step, "strategy": strategy, "tried": tried.to_dict("list")}
        plan = self.runner.remembered("plan", lambda: plan)
        return self._count(plan, found[plan["canary"]], tried)

    def _pilot(self, found: list[Canary], budget: int) -> tuple[dict[str, Any], pd.DataFrame]:
        """The canary that is told best from what stands in its place, in two rounds; its scores; what was tried."""
        while len(found) > 1 and FIRST_ROUND * budget < LEAST_PILOT * self._sets(len(found)):
            found = found[:-1]
        first = int(np.clip(FIRST_ROUND * budget / self._sets(len(found)), LEAST_PILOT, ENOUGH[0]))
        seen = self._seen(found, first)
        self._check(seen)
        told_apart = [apart(*pair) for pair in seen]
        last = sorted(range(len(found)), key=lambda i: -told_apart[i][0])[:FINALISTS]
        second = int(np.clip((1 - FIRST_ROUND) * budget / self._sets(len(last)), LEAST_PILOT, ENOUGH[1]))
        start = self.runner.index
        more = self._seen([found[i] for i in last], second)
        if names := list(more[0][0].scores):
            runs, canary = more[0][0], found[last[0]]
            about = self._pair(canary)[0], self._observers([canary])[0], names, runs.matrix(names)
            self.runner.check_memory(*about, start + np.arange(runs.count))
        for i, pair in zip(last, more, strict=True):
            seen[i] = Runs.joined([seen[i][0], pair[0]]), Runs.joined([seen[i][1], pair[1]])
            told_apart[i] = apart(*seen[i])
        best = max(last, key=lambda i: (self._promise(*seen[i]), told_apart[i][0]))
        tried = pd.DataFrame(
            {
                "stage": "canary",
                "canary": [canary.kind for canary in found],
                "origin": [canary.origin for canary in found],
                "label": [str(canary.label) for canary in found],
                "pilot": [pair[0].count for pair in seen],
                "apart": [distance for distance, _ in told_apart],
                "score": [name for _, name in told_apart],
                "chosen": [i == best for i in range(len(found))],
            }
        )
        members, others = seen[best]
        along = None if self.score else direction(members.numbers, others.numbers)
        names = [name for name in members.scores if name in others.scores]
        if not names:
            error = next(iter([*members.errors, *others.errors]), "no score that runs with and without it have")
            raise ValueError(
                f"train must run on records with a canary, too, got {error} ({found[best].kind}); "
                "canaries= chooses others"
            )
        learned = [] if along is None else ["learned direction"]
        told = None if along is None else along.tolist()
        return {"canary": best, "names": names + learned, "direction": told}, tried

    def _promise(self, members: Runs, others: Runs) -> float:
        """-log of the p-value of the claim on pilot runs, where it is small enough to choose a canary by."""
        if self.claim is None or not members.scores:
            return 0.0
        kinds = [kind.matrix(list(members.scores)) for kind in (members, others)]
        found = audit_scores(*kinds, claim=self.claim, adjacency=self.adjacency, holdout=0.5)
        return -math.log(max(found.p_value, 1e-300)) if found.p_value < PROMISING else 0.0

    def _sets(self, canaries: int) -> int:
        """Data sets to run on; of exchanged records each has an opposite of its own."""
        return 2 * canaries if self.adjacency == "replace-one" else canaries + 1

    def _seen(self, canaries: Sequence[Canary], count: int) -> list[tuple[Runs, Runs]]:
        """Runs with and without each canary; without it the same ones for all, where nothing stands in its place."""
        observers = self._observers(canaries)
        with_ = [
            self.runner.run(self._pair(canary)[0], [observer], count, closely=True)[0]
            for canary, observer in zip(canaries, observers, strict=True)
        ]
        if self.adjacency == "replace-one":
            pairs = zip(canaries, observers, strict=True)
            without = [self.runner.run(self._pair(c)[1], [o], count, closely=True)[0] for c, o in pairs]
        else:
            without = self.runner.run(self._pair(canaries[0])[1], observers, count, closely=True)
            without = [replace(each, numbers=without[0].numbers, prints=without[0].prints,
                               discrete=without[0].discrete) for each in without]  # fmt: skip
        return list(zip(with_, without, strict=True))

    def _check(self, seen: Sequence[tuple[Runs, Runs]]) -> None:
        """Whether runs differ by their seeds at all.

        Raises
        ------
        ValueError
            If all runs on a data set have the same result, and it is not one answer of a few.
        """
        members, others = seen[0]
        kinds = [set(kind.prints) for kind in (members, others)]
        least = SURE_OF_ANSWERS if others.discrete else LEAST_PILOT
        if others.count < least or None in kinds[0] | kinds[1] or max(map(len, kinds)) > 1:
            return
        same = all(set(each.prints) == kinds[1] for pair in seen for each in pair)
        if same and others.discrete:
            return
        text = f"train must give results that differ with the seed, got the same one in all of {others.count} runs"
        if same:
            raise ValueError(f"{text}, with any canary and without: does it use its seed and its records?")
        raise ValueError(
            f"{text} on the same records: it ignores its seed, or has no randomness; runs are then not independent, "
            "and nothing can be concluded from them. A training without randomness has no guarantee to audit"
        )

    def _count(self, plan: dict[str, Any], canary: Canary, tried: pd.DataFrame) -> AuditReport:
        along = None if plan["direction"] is None else np.asarray(plan["direction"])
        observer = self._observers([canary], along)[0]
        about = (self.runner, self.claim, self.confidence, self.adjacency, self.random_state)
        counted = Counted(*about, plan, self._pair(canary), observer)
        report = counted.bet() if plan["strategy"] == "betting" else counted.look()
        if report is None:
            raise ValueError(self._too_little("many runs", self._needed()))
        told = f"{report.strategy}; canary: {canary.kind} ({canary.origin}), label {canary.label}"
        self.remarks.append(f"canaries keep to what is allowed: {self.domain.words}")
        return replace(
            report,
            strategy=told,
            tried=pd.concat([tried, report.tried.assign(stage="event")], ignore_index=True),
        )

    # Many canaries, few runs

    def _many_canaries(self, strategy: str, left: int) -> AuditReport:
        """Each canary in or out by a coin in each run; runs with coins of their own count as one with more canaries."""
        numbers = self.X[0].size * len(self.domain.labels)  # in fewer dimensions canaries hide one another
        count = min(MANY_CANARIES, len(self.X) // 4, max(numbers, FEWEST_CANARIES))
        canaries, places = many_canaries(self.X, self.y, self.domain, count)
        rest = np.setdiff1d(np.arange(len(self.X)), places)
        if self.runner.most is None:
            left = self._timed(canaries, rest)
        shadows = left // 2 if strategy == "lira" else 0
        if strategy == "lira" and left < SHADOWS:
            raise ValueError(f"{self._unit()} must allow at least {SHADOWS} trainings for 'lira', got {left}")
        if left < 1:
            raise ValueError(self._too_little("one run", 1))
        coins = np.random.default_rng([self.random_state, 1])
        shadow, name = self._tossed(canaries, rest, coins, shadows, None)
        planned = max(1, int(PLANNED * self.runner.affordable))
        targets, name = self._tossed(canaries, rest, coins, planned, name)
        scores, included = (np.concatenate([run[k] for run in targets]) for k in (0, 1))
        if shadow:
            values, there = (np.stack([run[k] for run in shadow]) for k in (0, 1))
            ins, outs = np.where(there, values, np.nan), np.where(there, np.nan, values)
            scores = _ratios(ins, outs, scores.reshape(-1, count)).ravel()
        missing = coins.random((planned - len(targets)) * count) < 0.5  # runs for which no time was left guess wrong
        scores = np.concatenate([scores, np.where(missing, -np.inf, np.inf)])
        included = np.concatenate([included, missing])
        claim, level = self.claim, self.confidence
        report = one_run(scores, included, claim=claim, confidence=level, adjacency=self.adjacency)
        told = f"{strategy}: {len(targets)} runs of {count} canaries, score: {name}"
        told += f", likelihood ratios of {shadows} shadow runs" if shadow else ""
        return replace(report, strategy=f"{told}; {report.strategy}")

    def _timed(self, canaries: Sequence[Canary], rest: NDArray[np.intp]) -> int:
        """How many runs there is time for, as they come one by one: the rate of batches says nothing of them."""
        coins, began, count = np.random.default_rng([self.random_state, 2]), self.runner.elapsed, 1
        self.runner.batch = 1
        while self.runner.elapsed - began < TRIAL * self.runner.seconds:
            self._tossed(canaries, rest, coins, count, None)
            count *= 2
        return self.runner.affordable

    def _tossed(
        self, canaries: Sequence[Canary], rest: NDArray[np.intp], coins: np.random.Generator, count: int,
        name: str | None,
    ) -> tuple[list[tuple[Floats, Booleans]], str | None]:  # fmt: skip
        """Scores and inclusions, [canaries] each, of so many runs; the score is chosen in the first of all."""
        found: list[tuple[Floats, Booleans]] = []
        observers, began = self._observers(canaries), self.runner.elapsed
        while len(found) < count and not (found and self.runner.over):
            included = coins.random(len(canaries)) < 0.5
            runs = self.runner.run(self._mixed(canaries, included, rest), observers, 1)
            if name is None:
                offered = list(runs[0].scores)
                if not offered:
                    raise ValueError(f"train must run on the records, got {runs[0].errors}")
                name = next((each for each in PREFERRED if each in offered), offered[0])
            found.append((np.array([run.matrix([name])[0, 0] for run in runs]), included))
        if found and self.runner.most is None:
            self.runner.rate = (self.runner.elapsed - began) / len(found)
        return found, name

    def _mixed(self, canaries: Sequence[Canary], included: Booleans, rest: NDArray[np.intp]) -> Data:
        """Other records with some canaries, at most n; those that are out are left out, empty or exchanged."""
        neighbours = Neighbours(self.X[rest], self.y[rest], self.adjacency, self.empty)
        for canary, there in zip(canaries, included, strict=True):
            record = (canary.x, canary.label)
            data = neighbours.with_(record) if there else neighbours.without(opposite(canary, self.domain))
            neighbours = replace(neighbours, X=data[0], y=data[1])
        return neighbours.X, neighbours.y

    def _unit(self) -> str:
        return "seconds" if self.runner.most is None else "runs"


def _records(X: ArrayLike, y: ArrayLike) -> Data:
    X, y = np.asarray(X), np.asarray(y)
    if X.dtype.kind not in "biuf" or X.ndim < 2 or y.shape != (len(X),) or len(X) < 3 or not np.isfinite(X).all():
        raise ValueError(
            f"X and y must be finite numbers of shape [n >= 3, ...] and labels of shape [n], got {X.dtype} of shape "
            f"{X.shape} and {y.dtype} of shape {y.shape}"
        )
    return X, y


def _empty(
    training: Training, adjacency: str, X: NDArray[Any], labels: NDArray[Any], given: Record | None
) -> Record | None:
    """The record that contributes nothing; also what stands for none where an estimator takes n as public."""
    if given is not None and adjacency == "add-remove":
        raise ValueError("empty must be given for zero-out alone: neighbours of add-remove differ in their size")
    if given is not None or adjacency == "replace-one":
        return given
    if isinstance(training.estimator, methods.PrivateClassifier):
        return np.zeros_like(X[0]), int(np.max(labels)) + 1 if labels.dtype.kind in "biuf" else ""
    if adjacency == "add-remove":
        return None
    raise ValueError(
        "empty must be given for a claim of adjacency 'zero-out': features and label of the record that train takes as "
        "empty, such as empty=(np.zeros(d), -1); or claim.for_adjacency('add-remove', assumed=True) where that holds"
    )


def _ratios(ins: Floats, outs: Floats, observed: Floats) -> Floats:
    """Likelihood ratios; a run that failed counts as the least likely."""
    usable = np.isfinite(observed)
    ins, outs = (np.where(np.isfinite(each), each, np.nan) for each in (ins, outs))
    found = lira(ins, outs, np.where(usable, observed, 0.0), variance="fixed")
    return np.where(usable, found, -np.inf)
