"""What the book publishes is what the code gives: of every store that has a cheap row, one is computed again.

Which row that is, and what it takes, is read from the verifications that `dpnotes results verify` kept.
"""

import pandas as pd
import pytest

from dpnotes.lab.experiments import EXPERIMENTS, VERIFICATIONS
from dpnotes.lab.store import published_store, read_store, verify

LIMIT = 10.0  # seconds of one core a row
LIBRARIES = {"head_to_head_others": ["diffprivlib", "interpret"]}  # that rows need beside data sets
PUBLISHED = {name: read_store(published_store(name)) for name in EXPERIMENTS if published_store(name).is_file()}
KEPT = pd.read_csv(published_store(VERIFICATIONS)).sort_values("cpu_seconds")
CHEAPEST = KEPT[(KEPT["cpu_seconds"] <= LIMIT) & KEPT["store"].isin([*PUBLISHED])].drop_duplicates("store")


def needed(name, key):
    """What computing a row needs."""
    rows = PUBLISHED[name]
    for _, row in rows[rows["row"] == key].iterrows():
        return [*EXPERIMENTS[name].data(row.dropna().to_dict()), *LIBRARIES.get(name, [])]
    return []  # test_every_verification_is_of_a_published_row says so


@pytest.mark.parametrize(
    ("name", "key"),
    [
        pytest.param(s, k, id=s, marks=pytest.mark.needs(*needed(s, k)))
        for s, k in CHEAPEST[["store", "row"]].to_numpy()
    ],
)
def test_a_cheap_row_is_computed_again(name, key):
    experiment = EXPERIMENTS[name]
    table = verify(experiment.function, published_store(name), sample=[key], tolerance=experiment.tolerance)
    assert table["agrees"].all(), table[~table["agrees"]].to_string()


def test_the_rows_that_are_computed_again_are_of_many_stores_and_cost_two_minutes_at_most():
    assert len(CHEAPEST) >= len(PUBLISHED) / 2
    assert CHEAPEST["cpu_seconds"].sum() < 120


def test_every_verification_is_of_a_published_row_and_agrees():
    for name, own in KEPT.groupby("store"):
        assert set(own["row"]) <= set(PUBLISHED[name]["row"]), name
    assert KEPT["differing"].isna().all()
