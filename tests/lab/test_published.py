"""What the book publishes is what the code gives: of every store that has a cheap row, one is computed again.

Which row that is, and what it takes, is read from the verifications that `dpnotes results verify` kept.
"""

import pytest

from dpnotes._extras import MissingExtra
from dpnotes.data import DataMissing
from dpnotes.lab.experiments import EXPERIMENTS, VERIFICATIONS
from dpnotes.lab.store import published_store, read_store, verify

LIMIT = 5.5  # seconds of one core a row
PUBLISHED = [name for name in EXPERIMENTS if published_store(name).is_file()]
KEPT = read_store(published_store(VERIFICATIONS)).dropna(subset=["cpu_seconds"]).sort_values("cpu_seconds")
CHEAPEST = KEPT.drop_duplicates("store").set_index("store")[["key", "cpu_seconds"]]


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_cheap_row_is_computed_again(name):
    if name not in CHEAPEST.index:
        seconds = read_store(published_store(name))["seconds"].min()
        pytest.skip(f"no row of it was verified yet; the fastest took {seconds:.0f} s among others")
    key, seconds = CHEAPEST.loc[name]
    if seconds > LIMIT:
        pytest.skip(f"its cheapest verified row takes {seconds:.0f} s: dpnotes results verify --cheapest {name}")
    experiment = EXPERIMENTS[name]
    options = {"sample": [key], "random_state": None, "tolerance": experiment.tolerance}
    try:
        table = verify(experiment.function, published_store(name), **options)
    except RuntimeError as error:
        if isinstance(error.__cause__, DataMissing | MissingExtra):
            pytest.skip(str(error.__cause__))
        raise
    assert table["agrees"].all(), table[~table["agrees"]].to_string()


def test_the_rows_that_are_computed_again_are_of_many_stores_and_cost_a_minute_at_most():
    seconds = CHEAPEST["cpu_seconds"][CHEAPEST["cpu_seconds"] <= LIMIT]
    assert len(seconds) >= len(PUBLISHED) / 3
    assert seconds.sum() < 60


def test_every_verification_is_of_a_published_row():
    for name, own in read_store(published_store(VERIFICATIONS)).groupby("store"):
        assert set(own["key"]) <= set(read_store(published_store(name))["row"]), name
