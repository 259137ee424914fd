"""Votes of teachers on public records, with noise, and what goes wrong in it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpnotes._validation import Features, Floats, Integers
from dpnotes.accounting import PrivacyProfile, gaussian

REFUSED = -1


def queries(d: int) -> Floats:
    """Public records, [8, d]: near the last axis, the one along which the private records have least."""
    return np.asarray(np.random.default_rng(8).normal(0.0, 0.01, (8, d)) + np.eye(d)[-1])


@dataclass(frozen=True)
class Vote:
    """Each record goes to a teacher drawn for it; the teachers' votes on each public record are counted with noise."""

    teachers: int = 8
    noise: float = 8.0

    def claim(self) -> PrivacyProfile:
        """What the author says: a record moves one vote on each public record."""
        return gaussian(sigma=self.noise, sensitivity=math.sqrt(8))

    def __call__(self, X: Features, y: Integers, seed: int) -> Any:
        generator = np.random.default_rng(seed)
        directions = np.zeros((self.teachers, X.shape[1]))
        np.add.at(directions, generator.integers(self.teachers, size=len(X)), (2 * y - 1)[:, None] * X)
        votes = (queries(X.shape[1]) @ directions.T > 0).sum(axis=1)  # [queries], for class 1
        return self.answers(votes, votes + generator.normal(0.0, self.noise, len(votes)))

    def answers(self, votes: Integers, noisy: Floats) -> Any:
        """What is published of the votes for class 1 and the same with noise, both [queries]."""
        return noisy

    def labels(self, votes: Floats | Integers) -> Integers:
        """Of the larger class, [queries]."""
        return np.asarray(votes > self.teachers / 2, dtype=np.int64)


class EachForItself(Vote):
    """The claim is that of one answer, and eight are given."""

    def claim(self) -> PrivacyProfile:
        return gaussian(sigma=self.noise)


class ThresholdExact(Vote):
    """Answers are refused where too few teachers agree, which is decided on the votes without noise."""

    def answers(self, votes: Integers, noisy: Floats) -> Any:
        agree = np.maximum(votes, self.teachers - votes)
        return np.where(agree > 0.9 * self.teachers, self.labels(noisy), REFUSED)


class ConsensusExact(Vote):
    """Where all teachers agree, the label is given without noise."""

    def answers(self, votes: Integers, noisy: Floats) -> Any:
        return np.where(votes % self.teachers == 0, self.labels(votes), self.labels(noisy))


class DataDependent(Vote):
    """Answers cost the less the more teachers agree, and are given until the budget is spent, as in DPBag."""

    def answers(self, votes: Integers, noisy: Floats) -> Any:
        spent = np.cumsum(np.exp(-np.abs(2 * votes - self.teachers) / 2))
        return self.labels(noisy)[spent <= 8 * math.exp(-self.teachers / 2) + 0.05]
