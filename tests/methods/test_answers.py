"""Secret seeds and noise streams: entropy, no noise given out twice, by copy, pickle or thread."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from dpnotes.mechanisms import stream
from dpnotes.methods import BudgetExhausted, InferenceBudget, secret_seed
from dpnotes.methods._answers import Answering


class Answers(Answering):
    """Something whose answers are draws of its noise."""

    def __init__(self, answers=1, seed=1):
        super().__init__(InferenceBudget(answers), seed)

    @property
    def budget_(self):
        return self.budget

    def draw(self, count):
        return self.take(count).normal()


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
    streams = Answers(6)
    other = duplicate(streams)
    noise = [one.draw(1) for one in (streams, other, streams, other)]
    assert len(set(noise)) == 4
    assert streams.budget_.left == other.budget_.left == 2


def test_resumed_pickle_goes_on_behind_the_original():
    streams = Answers(10)
    streams.draw(2)
    stored = pickle.dumps(streams)
    after = streams.draw(3)
    other = pickle.loads(stored)
    with pytest.raises(BudgetExhausted, match="this is a copy"):
        other.draw(1)
    other.budget_.resume(released=5)
    assert other.draw(1) != after
    expected = Answers(10)
    expected.draw(5)
    again = pickle.loads(stored)
    again.budget_.resume(released=5)
    assert again.draw(1) == expected.draw(1)


def test_threads_never_share_noise():
    streams = Answers(2000)
    with ThreadPoolExecutor(8) as pool:
        noise = list(pool.map(lambda _: streams.draw(2), range(1000)))
    assert len(set(noise)) == 1000
    assert streams.budget_.left == 0


def test_refused_call_gives_no_stream():
    streams = Answers(3)
    with pytest.raises(BudgetExhausted):
        streams.draw(4)
    first = streams.draw(3)
    assert first == Answers(3).draw(1)
