"""The runs that are counted, after all has been chosen: looks that share what may fail, and bets."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from dpnotes._validation import Floats
from dpnotes.accounting import PrivacyProfile
from dpnotes.auditing._betting import Betting
from dpnotes.auditing._observing import Observer
from dpnotes.auditing._report import AuditReport
from dpnotes.auditing._runner import Runner
from dpnotes.auditing._scores import Events, audit_scores
from dpnotes.auditing._training import Data

LOOKS = ((1 / 16, 0.05), (1 / 4, 0.1), (1 / 2, 0.1), (3 / 4, 0.15), (1.0, 0.6))  # of the runs, of what may fail
LEAST = 6  # runs of each kind at the first look
COUNTED = 2**24  # index of the first run that is counted, beyond all that are not
HOLDOUT = 1000  # runs on which events are chosen, where that is less than their usual fraction


@dataclass(frozen=True)
class Look(Events):
    """Evidence of one of several looks, which has a part of what may fail."""

    part: float = 1.0

    def p_value(self, claim: PrivacyProfile) -> float:
        """The look's own, over its part."""
        return min(1.0, super().p_value(claim) / self.part)


@dataclass(frozen=True, eq=False)
class Counted:
    """The runs that are counted: their number, canary and scores were fixed before."""

    runner: Runner
    claim: PrivacyProfile | None
    confidence: float
    adjacency: str
    random_state: int
    plan: dict[str, Any]
    pair: tuple[Data, Data]  # with and without
    observer: Observer

    def look(self) -> AuditReport | None:
        """After each planned number of runs, until the claim falls or the budget ends; None before the first."""
        count = self.plan["count"]
        kinds: tuple[list[Floats], list[Floats]] = ([], [])
        report = None
        for fraction, part in LOOKS:
            upto = math.ceil(fraction * count)
            if upto < LEAST or not self._fill(kinds, upto):
                continue
            members, others = (np.concatenate(kind)[:upto] for kind in kinds)
            level = part * (1 - self.confidence)
            found = audit_scores(
                members,
                others,
                claim=self.claim,
                confidence=1 - level,
                adjacency=self.adjacency,
                holdout=float(np.clip(HOLDOUT / upto, 0.02, 0.3)),
                names=self.plan["names"],
                random_state=self.random_state,
            )
            assert isinstance(found.evidence, Events)
            report = replace(found, evidence=Look(found.evidence.chosen, part), confidence=self.confidence)
            if report.refuted:
                break
        if report is not None and sum(map(len, kinds[0])) < count:
            ended = "the claim fell" if report.refuted else "the budget ended"
            told = f"stopped before the planned {count} runs of each kind: {ended}"
            report = replace(report, remarks=(told, *report.remarks))
        self._check_memory(kinds[0])
        return report

    def bet(self) -> AuditReport:
        """Pair by pair, until the claim falls or the budget ends."""
        assert self.claim is not None
        audit = Betting(self.claim, confidence=self.confidence, adjacency=self.adjacency)
        kinds: tuple[list[Floats], list[Floats]] = ([], [])
        size = 1
        while audit.pairs < self.plan["count"] and not audit.refuted:
            size = max(size, audit.pairs // 10)
            if not self._fill(kinds, audit.pairs + size):
                break
            members, others = (np.concatenate(kind)[audit.pairs :] for kind in kinds)
            for pair in zip(members[:size], others[:size], strict=True):
                audit.update(*pair)
        self._check_memory(kinds[0])
        return audit.report()

    def _check_memory(self, blocks: list[Floats]) -> None:
        """Whether the runs with the record depend on others."""
        if blocks:
            sizes = [len(block) for block in blocks]
            places = [_place(before, 0, size) for before, size in zip(np.cumsum([0, *sizes[:-1]]), sizes, strict=True)]
            indices = np.concatenate([start + np.arange(size) for start, size in zip(places, sizes, strict=True)])
            self.runner.check_memory(self.pair[0], self.observer, self.plan["names"], np.concatenate(blocks), indices)

    def _fill(self, kinds: tuple[list[Floats], list[Floats]], upto: int) -> bool:
        """Run both kinds in turn until there are so many of each; False if the budget ends before."""
        runner = self.runner
        while (done := sum(map(len, kinds[0]))) < upto:
            size = min(upto - done, self.plan["step"])
            if runner.over and f"members {done} {size}" not in (runner.memory or {}):
                return False
            for k, label in enumerate(("members", "others")):
                find = partial(self._scores, self.pair[k], size, _place(done, k, size))
                kinds[k].append(np.asarray(runner.recall(f"{label} {done} {size}", size, find)))
        return True

    def _scores(self, data: Data, size: int, index: int) -> list[list[float]]:
        runner, parts = self.runner, list[Floats]()
        runner.index = index  # seeds by the place of a run, so that one that is resumed repeats none
        while (left := size - sum(map(len, parts))) > 0:  # a kind that was begun is finished, whatever the clock says
            parts.append(runner.run(data, [self.observer], left)[0].matrix(self.plan["names"]))
        scores: list[list[float]] = np.concatenate(parts).tolist()
        return scores


def _place(done: int, kind: int, size: int) -> int:
    """Index of the first run of a block, which has ``size`` runs, as many as that of the other kind."""
    return COUNTED + 2 * done + kind * size
