"""A reader's file or training: in chapters, in ``dpnotes compare`` and in ``dpnotes
audit``; what was found is kept.
"""

import re

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from dpnotes.lab import cli, own_data
from dpnotes.lab.bagging import (
    experiments as bagging,
    grids as bagging_grids,
    results as comparisons,
)
from dpnotes.lab.dpbag import (
    experiments as dpbag,
    grids as dpbag_grids,
    results as dpbag_results,
)
from dpnotes.lab.own_training import Kept
from dpnotes.lab.private_prediction import (
    experiments as private_prediction,
    grids as private_prediction_grids,
    results as series,
)


@pytest.fixture(params=["two classes, said", "three classes, in arrays"])
def reference(tmp_path, request):
    """A mixed table whose public facts are given; or arrays of which nothing is
    said.
    """
    generator = np.random.default_rng(0)
    age = generator.integers(20, 90, 400)
    job = generator.choice(["nurse", "baker"], 400)
    if request.param.startswith("two"):
        table = pd.DataFrame(
            {"ill": np.where(age > 50, "yes", "no"), "age": age, "job": job}
        )
        table.to_csv(tmp_path / "mine.csv", index=False)
        public = (
            'classes = ["no", "yes"]\n[columns]\nage = [0, 100]\njob = ["baker",'
            ' "nurse"]\n'
        )
        (tmp_path / "mine.toml").write_text(public)
        return own_data.reference(str(tmp_path / "mine.csv"), "ill")
    np.savez(
        tmp_path / "mine.npz",
        X=np.stack([age, job == "nurse"], axis=1),
        y=np.digitize(age, [45, 70]),
    )
    return own_data.reference(str(tmp_path / "mine.npz"))


def test_every_chapter_runs_on_it(reference):
    """One row of each method; the guarantee is stated, and what can be learned is
    learned.
    """
    mine = own_data.load(reference)
    grid = bagging_grids.own(reference, mine.n_train, seeds=1)
    rows = pd.DataFrame(
        [{**row, **bagging.private_base(**row, device="cpu")} for row in grid]
    )
    bases = comparisons.private_bases(rows)
    # three sizes; two epsilons of two modes, and the bare subsample
    assert len(bases) == 3 * 5
    bare = bases[bases["mode"] == "bare"]
    assert bare["advantage"].to_numpy() == pytest.approx(
        bare["subsample"] / mine.n_train
    )
    assert bare["accuracy"].max() > 0.6

    points = [
        row
        for row in private_prediction_grids.own(reference)
        if row["epsilon"] == 20 and row["delta"] == 0
    ]
    found = series.put_together(
        pd.DataFrame(
            [
                {**row, **private_prediction.trade_off(**row, device="cpu")}
                for row in points
            ]
        )
    )
    assert set(found["n"]) == {mine.n_train}
    assert found["accuracy"].max() > 0.6
    assert series.series(found, "loss_perturbation", "epsilon").x.tolist() == [20.0]

    labelled = [
        row for row in dpbag_grids.own(reference, seeds=1) if row["n_partitions"] == 1
    ]
    table = dpbag_results.own(
        pd.DataFrame(
            [{**row, **dpbag.student(**row, device="cpu")} for row in labelled]
        )
    )
    assert set(table["epsilon"].dropna()) == {1, 3, 5}
    assert table[table["epsilon"].isna()]["accuracy"].item() > 0.8


def test_a_page_says_what_is_private_public_and_prepared(reference):
    said = own_data.statement(reference)
    assert all(
        f"* **{word}**" in said
        for word in ("Private", "Public", "Preparation", "Not private")
    )
    table = own_data.public_columns(own_data.load(reference))
    if "csv" in reference:
        assert "All of this was declared beforehand" in said
        assert table["public"].tolist() == ["0 to 100", "baker, nurse"]
        assert "divided" not in own_data.statement(reference, scaling="none")
        assert "divided by its norm" in own_data.statement(reference, scaling="record")
    else:
        assert (
            "Inferred from the records as if public, which no guarantee covers:** the"
            " classes, `0`, `1`." in said
        )
        assert set(table["given"]) == {"inferred from the records"}


def test_rows_of_another_content_are_not_taken(reference):
    path = reference.partition("?")[0]
    assert own_data.is_own(reference)
    assert own_data.label(reference) == path.rpartition("/")[2]
    assert not own_data.is_own("adult")
    with pytest.raises(ValueError, match="changed while its rows were computed"):
        own_data.load(reference[:-1])


DECLARED = (
    'classes = ["no", "yes"]\n[columns]\nage = [0, 120]\njob = ["baker", "nurse"]\n'
)


@pytest.fixture
def folder(tmp_path):
    generator = np.random.default_rng(0)
    age = generator.integers(20, 80, size=240)
    job = generator.integers(2, size=240)
    ill = np.where(age + 10 * job + generator.normal(0, 5, 240) > 55, "yes", "no")
    table = pd.DataFrame(
        {"age": age, "job": np.where(job == 1, "nurse", "baker"), "ill": ill}
    )
    table.to_csv(tmp_path / "mine.csv", index=False)
    (tmp_path / "mine.toml").write_text(DECLARED, encoding="utf-8")
    return tmp_path


def invoked(*arguments):
    result = CliRunner().invoke(cli.main, [*arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


def compare(folder, *options):
    table = f"{folder}/mine.csv"
    asked = ("--target", "ill", "--epsilon", "2", "--repeats", "2")
    return invoked("compare", table, *asked, *options)


def test_a_comparison_is_of_a_public_table_alone(folder):
    code, text = compare(folder)
    assert code == 2
    assert "give --public if everyone may see this table" in " ".join(text.split())
    code, text = compare(folder, "--public")
    assert code == 0
    assert re.search(r"^ClassMeans +model +0\.\d{3} ± ", text, re.MULTILINE)
    assert "Not fitted: DPSGD: delta must be" in text


def test_values_that_are_not_read_are_told(folder):
    frame = pd.read_csv(folder / "mine.csv", dtype=str)
    frame.mask(frame.index.to_numpy()[:, None] < [9, 0, 0]).to_csv(
        folder / "mine.csv", index=False
    )
    told = "values that are missing or not as declared (9 of 'age') count"
    assert told in " ".join(compare(folder, "--public")[1].split())


@pytest.mark.parametrize(
    ("options", "table", "message"),
    [
        (("--epsilon", "0"), {}, "epsilon must be > 0"),
        ((), {"ill": "31337"}, "no value of the target 'ill' is among classes"),
    ],
)
def test_bad_input_of_a_comparison_is_one_line_without_a_value(
    folder, options, table, message
):
    frame = pd.read_csv(folder / "mine.csv").assign(**table)
    frame.to_csv(folder / "mine.csv", index=False)
    code, text = compare(folder, "--public", *options)
    assert code == 2
    assert message in text
    assert "31337" not in text


SCRIPT = """
from pathlib import Path
import numpy as np
from dpnotes import ModelSensitivity

def train(X, y, seed, sigma=0.05):
    rows = X / np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True))
    return rows.sum(axis=0) + np.random.default_rng(seed).normal(0, sigma, X.shape[1])

def quiet(X, y, seed):
    return train(X, y, seed, 20.0)

def labels(X, y, seed):
    assert set(y) == {"no", "yes"}
    return quiet(X, y, seed)

calls = []

def stopped(X, y, seed):
    calls.append(seed)
    if len(calls) == 500:
        raise KeyboardInterrupt
    return quiet(X, y, seed)

def nothing(X, y, seed):
    return None

model = ModelSensitivity(1.0, l2=0.1, norm=2.0, noise_seed=0, device="cpu")
"""


@pytest.fixture
def script(tmp_path):
    X = np.random.default_rng(0).normal(size=(200, 4))
    y = np.arange(200) % 2
    np.savez(tmp_path / "table.npz", X=X, y=y)
    X[3, 1] = np.nan
    np.savez(tmp_path / "words.npz", X=X, y=np.array(["no", "yes"])[y])
    (tmp_path / "words.toml").write_text('classes = ["yes", "no"]', encoding="utf-8")
    (tmp_path / "script.py").write_text(SCRIPT, encoding="utf-8")
    return tmp_path


def audit(script, name, *options, table="table"):
    return invoked(
        "audit",
        f"{script}/{name}",
        "--data",
        f"{script}/{table}.npz",
        "--runs",
        "600",
        *options,
    )


@pytest.mark.parametrize(
    ("name", "options", "code", "text"),
    [
        (
            "script.py:train",
            ("--epsilon", "1", "--delta", "1e-5"),
            1,
            "The claim is REFUTED",
        ),
        (
            "script.py:quiet",
            ("--epsilon", "1", "--delta", "1e-5"),
            0,
            "The claim is not refuted",
        ),
        ("script.py:model", (), 0, "zero-out: epsilon 1 at delta 0"),
        (
            "script.py:nothing",
            ("--epsilon", "1"),
            2,
            "Error: TypeError: train must return what is released",
        ),
        ("script.py", (), 2, "must be named as FILE.py:NAME"),
        ("none.py:train", (), 2, "there is no file"),
        ("script.py:treat", (), 2, "does not define 'treat'"),
        ("script.py:quiet", ("--epsilon", "-1"), 2, "epsilon must be"),
        ("script.py:quiet", ("--epsilon", "one"), 2, "is not a valid float"),
    ],
)
def test_a_verdict_and_an_error_have_exit_codes_of_their_own(
    script, name, options, code, text
):
    found, told = audit(script, name, *options)
    assert found == code
    assert text in " ".join(told.split())


def test_labels_are_those_of_the_table(script):
    code, text = audit(script, "script.py:labels", "--epsilon", "1", table="words")
    assert code == 0
    assert "failed" not in text
    assert ", label no" in text or ", label yes" in text
    assert "values that are missing or not as declared (1 of '1') count" in " ".join(
        text.split()
    )


def test_an_audit_is_resumed_from_what_was_kept(script):
    kept = script / "kept.jsonl"
    options = ("--epsilon", "1", "--keep", str(kept))
    _, whole = audit(script, "script.py:quiet", *options)
    content = kept.read_bytes()
    assert content.count(b"\n") > 10
    kept.write_bytes(content[: len(content) // 2])  # torn in the middle of a line
    _, resumed = audit(script, "script.py:quiet", *options)
    # the same findings, computed twice
    assert kept.read_bytes() == content
    assert resumed.splitlines()[0] == whole.splitlines()[0]
    code, text = audit(script, "script.py:quiet", "--epsilon", "2", "--keep", str(kept))
    assert code == 2
    assert "belongs to another audit: epsilon was 1.0, now 2.0." in text


def test_an_interrupted_audit_says_what_is_kept(script):
    kept = script / "kept.jsonl"
    code, text = audit(
        script, "script.py:stopped", "--epsilon", "1", "--keep", str(kept)
    )
    assert code == 130
    assert f"the findings are saved in {kept}; the same command continues" in text
    assert kept.read_text().count("members") > 5


def test_kept_keeps_for_the_owner_alone(tmp_path):
    Kept(tmp_path / "file", "digest", {"seed": 0})["scores"] = [1.0, -float("inf")]
    again = Kept(tmp_path / "file", "digest", {"seed": 0})
    assert again["scores"] == [1.0, -float("inf")]
    assert len(again) == 2
    # as private as the records
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600
    Kept(tmp_path / "same table", "digest", {"seed": 0})
    texts = [
        (tmp_path / name).read_text().splitlines()[0] for name in ("file", "same table")
    ]
    # salted: nobody sees that the tables are the same
    assert texts[0] != texts[1]
    assert "digest" not in texts[0]
    with pytest.raises(ValueError, match="belongs to another audit: table was"):
        Kept(tmp_path / "file", "of another table", {"seed": 0})


FOREIGN = (
    "X,y\n",
    "[[1]]\n",
    '["seed", 0]\n',
    "5\n",
    '["audit", {"salt": "a"}]\n5\n',
    # without a line feed at the end, as if a kill had torn the last line
    "# Notes\nthe last line",
    "the only line",
)


@pytest.mark.parametrize("content", FOREIGN)
def test_kept_leaves_a_file_of_something_else_as_it_is(tmp_path, content):
    other = tmp_path / "other"
    other.write_text(content)
    other.chmod(0o644)
    with pytest.raises(ValueError, match="not a file of an audit"):
        Kept(other, "digest", {"seed": 0})
    assert other.read_text() == content
    assert other.stat().st_mode & 0o777 == 0o644
