"""``dpnotes audit``: the training of a file, a table, a verdict; what was counted is kept."""

import numpy as np
import pytest
from click.testing import CliRunner

from dpnotes.lab import cli
from dpnotes.lab.own_training import Kept

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
def folder(tmp_path):
    X, y = np.random.default_rng(0).normal(size=(200, 4)), np.arange(200) % 2
    np.savez(tmp_path / "table.npz", X=X, y=y)
    X[3, 1] = np.nan
    np.savez(tmp_path / "words.npz", X=X, y=np.array(["no", "yes"])[y])
    (tmp_path / "words.toml").write_text('classes = ["yes", "no"]', encoding="utf-8")
    (tmp_path / "script.py").write_text(SCRIPT, encoding="utf-8")
    return tmp_path


def call(folder, name, *options, table="table"):
    arguments = ["audit", f"{folder}/{name}", "--data", f"{folder}/{table}.npz", "--runs", "600", *options]
    result = CliRunner().invoke(cli.main, arguments)
    assert isinstance(result.exception, SystemExit | None)
    return result.exit_code, result.output


@pytest.mark.parametrize(
    ("name", "options", "code", "text"),
    [
        ("script.py:train", ("--epsilon", "1", "--delta", "1e-5"), 1, "The claim is REFUTED"),
        ("script.py:quiet", ("--epsilon", "1", "--delta", "1e-5"), 0, "The claim is not refuted"),
        ("script.py:model", (), 0, "zero-out: epsilon 1 at delta 0"),
        ("script.py:nothing", ("--epsilon", "1"), 2, "Error: TypeError: train must return what is released"),
        ("script.py", (), 2, "must be named as FILE.py:NAME"),
        ("none.py:train", (), 2, "there is no file"),
        ("script.py:treat", (), 2, "does not define 'treat'"),
        ("script.py:quiet", ("--epsilon", "-1"), 2, "epsilon must be"),
        ("script.py:quiet", ("--epsilon", "one"), 2, "is not a valid float"),
    ],
)
def test_a_verdict_and_an_error_have_exit_codes_of_their_own(folder, name, options, code, text):
    found, told = call(folder, name, *options)
    assert found == code
    assert text in " ".join(told.split())


def test_labels_are_those_of_the_table(folder):
    code, text = call(folder, "script.py:labels", "--epsilon", "1", table="words")
    assert code == 0
    assert "failed" not in text
    assert ", label no" in text or ", label yes" in text
    assert "1 of '1' are missing or not as declared" in " ".join(text.split())


def test_it_is_resumed_from_what_was_kept(folder):
    kept = folder / "kept.jsonl"
    options = ("--epsilon", "1", "--keep", str(kept))
    _, whole = call(folder, "script.py:quiet", *options)
    content = kept.read_bytes()
    assert content.count(b"\n") > 10
    kept.write_bytes(content[: len(content) // 2])  # torn in the middle of a line
    _, resumed = call(folder, "script.py:quiet", *options)
    assert kept.read_bytes() == content
    assert resumed.splitlines()[0] == whole.splitlines()[0]
    code, text = call(folder, "script.py:quiet", "--epsilon", "2", "--keep", str(kept))
    assert code == 2
    assert "belongs to another audit: epsilon was 1.0, now 2.0." in text


def test_an_interrupted_audit_says_what_is_kept(folder):
    kept = folder / "kept.jsonl"
    code, text = call(folder, "script.py:stopped", "--epsilon", "1", "--keep", str(kept))
    assert code == 130
    assert f"the findings are saved in {kept}; the same command continues" in text
    assert kept.read_text().count("members") > 5


def test_kept_keeps(tmp_path):
    Kept(tmp_path / "file", {"seed": 0})["scores"] = [1.0, -float("inf")]
    again = Kept(tmp_path / "file", {"seed": 0})
    assert again["scores"] == [1.0, -float("inf")]
    assert len(again) == 2
    for content in ("X,y\n", "[[1]]\n", '["seed", 0]\n'):
        (tmp_path / "other").write_text(content)
        with pytest.raises(ValueError, match=r"not a file of an audit|does not belong to this kind"):
            Kept(tmp_path / "other", {"seed": 0})
