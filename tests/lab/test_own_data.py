"""How rows name a reader's file, and what a page says of it."""

import numpy as np
import pandas as pd
import pytest

from dpnotes.lab import own_data
from dpnotes.lab.bagging import experiments as bagging
from dpnotes.lab.bagging import grids as bagging_grids
from dpnotes.lab.bagging import tables as comparisons
from dpnotes.lab.dpbag import experiments as dpbag
from dpnotes.lab.dpbag import grids as dpbag_grids
from dpnotes.lab.dpbag import tables as dpbag_tables
from dpnotes.lab.private_prediction import experiments as private_prediction
from dpnotes.lab.private_prediction import grids as private_prediction_grids
from dpnotes.lab.private_prediction import tables as series


@pytest.fixture(params=["two classes, said", "three classes, in arrays"])
def reference(tmp_path, request):
    """A mixed table whose public facts are given; or arrays of which nothing is said."""
    generator = np.random.default_rng(0)
    age, job = generator.integers(20, 90, 400), generator.choice(["nurse", "baker"], 400)
    if request.param.startswith("two"):
        table = pd.DataFrame({"ill": np.where(age > 50, "yes", "no"), "age": age, "job": job})
        table.to_csv(tmp_path / "mine.csv", index=False)
        public = 'classes = ["no", "yes"]\n[columns]\nage = [0, 100]\njob = ["baker", "nurse"]\n'
        (tmp_path / "mine.toml").write_text(public)
        return own_data.reference(str(tmp_path / "mine.csv"), "ill")
    np.savez(tmp_path / "mine.npz", X=np.stack([age, job == "nurse"], axis=1), y=np.digitize(age, [45, 70]))
    return own_data.reference(str(tmp_path / "mine.npz"))


def test_every_chapter_runs_on_it(reference):
    """One row of each method; the guarantee is stated, and what can be learned is learned."""
    mine = own_data.load(reference)
    grid = bagging_grids.own(reference, mine.n_train, seeds=1)
    rows = pd.DataFrame([{**row, **bagging.private_base(**row, device="cpu")} for row in grid])
    bases = comparisons.private_bases(rows)
    assert len(bases) == 3 * 5
    bare = bases[bases["mode"] == "bare"]
    assert bare["advantage"].to_numpy() == pytest.approx(bare["subsample"] / mine.n_train)
    assert bare["accuracy"].max() > 0.6

    points = [row for row in private_prediction_grids.own(reference) if row["epsilon"] == 20 and row["delta"] == 0]
    found = series.put_together(
        pd.DataFrame([{**row, **private_prediction.trade_off(**row, device="cpu")} for row in points])
    )
    assert set(found["n"]) == {mine.n_train}
    assert found["accuracy"].max() > 0.6
    assert series.series(found, "loss_perturbation", "epsilon").x.tolist() == [20.0]

    labelled = [row for row in dpbag_grids.own(reference, seeds=1) if row["n_partitions"] == 1]
    table = dpbag_tables.own(pd.DataFrame([{**row, **dpbag.student(**row, device="cpu")} for row in labelled]))
    assert set(table["epsilon"].dropna()) == {1, 3, 5}
    assert table[table["epsilon"].isna()]["accuracy"].item() > 0.8


def test_a_page_says_what_is_private_public_and_prepared(reference):
    said = own_data.statement(reference)
    assert all(f"* **{word}**" in said for word in ("Private", "Public", "Preparation", "Not private"))
    table = own_data.public_columns(own_data.load(reference))
    if "csv" in reference:
        assert "All of this was declared beforehand" in said
        assert table["public"].tolist() == ["0 to 100", "baker, nurse"]
        assert "divided" not in own_data.statement(reference, scaling="none")
        assert "divided by its norm" in own_data.statement(reference, scaling="record")
    else:
        assert "Inferred from the records as if public, which no guarantee covers:** the classes, `0`, `1`." in said
        assert set(table["given"]) == {"inferred from the records"}


def test_rows_of_another_content_are_not_taken(reference):
    path = reference.partition("?")[0]
    assert own_data.is_own(reference)
    assert own_data.label(reference) == path.rpartition("/")[2]
    assert not own_data.is_own("adult")
    with pytest.raises(ValueError, match="changed while its rows were computed"):
        own_data.load(reference[:-1])
