"""Secret seeds and noise streams: entropy, no noise given out twice, by copy, pickle or thread."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from dpnotes.methods import BudgetExhausted, InferenceBudget, secret_seed, stream
from dpnotes.methods._answers import AnswerStreams


def test_seed_takes_fresh_entropy_unless_told():
    np.random.seed(0)  # noqa: NPY002 - the global state must not matter
    first = secret_seed(None)
    np.random.seed(0)  # noqa: NPY002
    assert secret_seed(None) != first
    assert secret_seed(3) == secret_seed(3) == secret_seed(np.random.RandomState(3))
    assert max(secret_seed(s) for s in range(40)) > 2**120
    state = np.random.RandomState(3)
    assert secret_seed(state) != secret_seed(state)


def test_streams_are_independent():
    draws = np.stack([stream(5, i).normal(size=4000) for i in range(6)])
    # off-diagonal correlations of 4000 draws have deviation 0.016; 15 pairs
    assert np.abs(np.corrcoef(draws)[np.triu_indices(6, 1)]).max() < 0.08
    assert (stream(5, 2).normal(size=4000) == draws[2]).all()


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy], ids=["copy", "deepcopy"])
def test_copies_share_budget_but_never_noise(duplicate):
    streams = AnswerStreams(InferenceBudget(6), seed=1)
    other = duplicate(streams)
    noise = [one.take(1).normal() for one in (streams, other, streams, other)]
    assert len(set(noise)) == 4
    assert streams.budget.left == other.budget.left == 2


def test_resumed_pickle_goes_on_behind_the_original():
    streams = AnswerStreams(InferenceBudget(10), seed=1)
    streams.take(2)
    stored = pickle.dumps(streams)
    after = streams.take(3).normal()
    other = pickle.loads(stored)
    with pytest.raises(BudgetExhausted, match="this is a copy"):
        other.take(1)
    other.budget.resume(released=5)
    assert other.take(1).normal() != after
    expected = AnswerStreams(InferenceBudget(10), seed=1)
    expected.take(5)
    again = pickle.loads(stored)
    again.budget.resume(released=5)
    assert again.take(1).normal() == expected.take(1).normal()


def test_threads_never_share_noise():
    streams = AnswerStreams(InferenceBudget(2000), seed=1)
    with ThreadPoolExecutor(8) as pool:
        noise = list(pool.map(lambda _: streams.take(2).normal(), range(1000)))
    assert len(set(noise)) == 1000
    assert streams.budget.left == 0


def test_refused_call_gives_no_stream():
    streams = AnswerStreams(InferenceBudget(3), seed=1)
    with pytest.raises(BudgetExhausted):
        streams.take(4)
    first = streams.take(3).normal()
    assert first == AnswerStreams(InferenceBudget(3), seed=1).take(1).normal()
