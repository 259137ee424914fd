"""What the book publishes is what the code gives: of every store that has a cheap row, one is computed again.

Which row that is, and what it takes, is read from the verifications that `dpnotes results verify` kept.
"""

import pytest

from dpnotes.lab.experiments import EXPERIMENTS, VERIFICATIONS
from dpnotes.lab.store import published_store, read_store, verify

LIMIT = 5.5  # seconds of one core a row
PUBLISHED = [name for name in EXPERIMENTS if published_store(name).is_file()]
LIBRARIES = {"head_to_head_others": ["diffprivlib", "interpret"]}  # that rows need beside data sets
KEPT = read_store(published_store(VERIFICATIONS)).dropna(subset=["cpu_seconds"]).sort_values("cpu_seconds")
CHEAP = KEPT[(KEPT["cpu_seconds"] <= LIMIT) & KEPT["store"].isin(PUBLISHED)]
CHEAPEST = CHEAP.drop_duplicates("store").set_index("store")


def needed(name, key):
    """What computing a row needs."""
    rows = read_store(published_store(name))
    for _, row in rows[rows["row"] == key].iterrows():
        return [*EXPERIMENTS[name].data(row.dropna().to_dict()), *LIBRARIES.get(name, [])]
    return []  # test_every_verification_is_of_a_published_row says so


@pytest.mark.parametrize(
    ("name", "key"),
    [pytest.param(*found, id=found[0], marks=pytest.mark.needs(*needed(*found))) for found in CHEAPEST["key"].items()],
)
def test_a_cheap_row_is_computed_again(name, key):
    experiment = EXPERIMENTS[name]
    options = {"sample": [key], "random_state": None, "tolerance": experiment.tolerance}
    table = verify(experiment.function, published_store(name), **options)
    assert table["agrees"].all(), table[~table["agrees"]].to_string()


def test_the_rows_that_are_computed_again_are_of_many_stores_and_cost_a_minute_at_most():
    assert len(CHEAPEST) >= len(PUBLISHED) / 3
    assert CHEAPEST["cpu_seconds"].sum() < 60


def test_every_verification_is_of_a_published_row():
    for name, own in read_store(published_store(VERIFICATIONS)).groupby("store"):
        assert set(own["key"]) <= set(read_store(published_store(name))["row"]), name
