"""What an experiment of the book must have, whatever its chapter; and published rows
are what the code gives.

Of every store that has a cheap row, one is computed again. Which row that is, and what
it takes, is read from the verifications that `dpnotes results verify` kept.
"""

import math
import re
from importlib import import_module

import pandas as pd
import pytest

from dpnotes.lab import experiments
from dpnotes.lab.chapters import all_chapters
from dpnotes.lab.experiments import EXPERIMENTS, VERIFICATIONS
from dpnotes.lab.store import published_store, read_store, verify

CHAPTERS = ("bagging", "dpbag", "intrinsic_sgd", "private_prediction")


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_experiments_have_names_of_their_own_that_begin_with_their_chapter(chapter):
    chosen = import_module(f"dpnotes.lab.{chapter}.experiments").EXPERIMENTS
    functions = {}
    for each in chosen:
        # without it the rows would depend on the function's address
        name = each.function.experiment_name
        assert re.fullmatch(rf"{chapter}\.\w+", name)
        assert functions.setdefault(name, each.function) is each.function
        assert each.function.__module__.startswith(f"dpnotes.lab.{chapter}.")
        assert each.name.startswith(f"{chapter}_")
    # a store that is there twice would hide another
    stores = [each.name for each in chosen]
    assert stores == [name for name in EXPERIMENTS if name in stores]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_grids_have_each_row_once_and_every_row_costs_something(name):
    for grid in EXPERIMENTS[name].grids.values():
        rows = grid()
        assert len({tuple(sorted(row.items(), key=str)) for row in rows}) == len(rows)
        assert all(EXPERIMENTS[name].cost(row) > 0 for row in rows)


def test_provenance_and_chapters_say_what_was_computed_again():
    rows = experiments.rows("bagging_private_base")
    assert experiments.provenance(rows)["rows"].sum() == len(rows)
    (told,) = set(experiments.provenance(rows)["computed again"])
    counted = r"\d+ of \d+, the last on 20\d\d-\d\d-\d\d; all agree"
    assert re.fullmatch(counted, told)
    gap = rows.head(2).assign(date=[rows["date"][0], None])
    assert experiments.provenance(gap)["rows"].tolist() == [1]
    remark = rf"Published rows that were computed again as a check: {counted}\."
    assert re.fullmatch(remark, experiments.verified("bagging"))


TABLES = {"bagging": "bagging_table2a", "dpbag": "dpbag_adult_logistic"}
WITH_SEEDS = [each for each in all_chapters() if "seeds" in each.parameters]


@pytest.mark.parametrize("chapter", WITH_SEEDS, ids=lambda chapter: chapter.name)
def test_a_chapter_asks_for_as_many_seeds_as_the_grid_of_its_table_has(chapter):
    grid = EXPERIMENTS[TABLES[chapter.of]].grids["paper"]()
    seeds = {row["seed"] for row in grid}
    assert chapter.parameters["seeds"].default == len(seeds)


# metrics that say what a machine did: no tolerance can be too large
MACHINES = ("_seconds", "peak_memory")


@pytest.mark.parametrize(
    "name", [name for name in EXPERIMENTS if published_store(name).is_file()]
)
def test_no_tolerance_is_as_large_as_what_tells_rows_apart(name):
    rows = read_store(published_store(name))
    for metric, own in EXPERIMENTS[name].tolerance.items():
        assert metric in rows, f"{name} has no metric {metric!r}"
        values = rows[metric].dropna().astype(float)
        low, high = values.quantile([0.25, 0.75])
        # half of the rows lie within; all, if that is one value
        between = high - low or values.max() - values.min()
        # a metric that no row changes must be told from 0
        # rows that are all equal must be told from nothing
        apart = between or abs(values.median())
        tolerance = own(values.median()) if callable(own) else own
        if metric.endswith(MACHINES):
            assert tolerance == math.inf
        else:
            assert tolerance < apart, (
                f"{name}: {metric} may differ by {tolerance:g}, but rows differ by"
                f" {apart:g}"
            )


LIMIT = 10.0  # seconds of one core a row
PUBLISHED = {
    name: read_store(published_store(name))
    for name in EXPERIMENTS
    if published_store(name).is_file()
}
KEPT = pd.read_csv(published_store(VERIFICATIONS)).sort_values("cpu_seconds")
# one row of each store that has a quick one
CHEAPEST = KEPT[
    (KEPT["cpu_seconds"] <= LIMIT) & KEPT["store"].isin([*PUBLISHED])
].drop_duplicates("store")


def needed(name, key):
    """What computing a row needs."""
    rows = PUBLISHED[name]
    for _, row in rows[rows["row"] == key].iterrows():
        return EXPERIMENTS[name].data(row.dropna().to_dict())
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
    table = verify(
        experiment.function,
        published_store(name),
        sample=[key],
        tolerance=experiment.tolerance,
    )
    assert table["agrees"].all(), table[~table["agrees"]].to_string()


def test_the_rows_that_are_computed_again_are_of_many_stores_and_cost_two_minutes_at_most():
    assert len(CHEAPEST) >= len(PUBLISHED) / 2
    assert CHEAPEST["cpu_seconds"].sum() < 120


def test_every_verification_is_of_a_published_row_and_agrees():
    for name, own in KEPT.groupby("store"):
        assert set(own["row"]) <= set(PUBLISHED[name]["row"]), name
    assert KEPT["differing"].isna().all()
