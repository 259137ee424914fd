"""``dpnotes audit``: the training of a file, a table, a verdict; what was counted is kept."""

import numpy as np
import pytest
from click.testing import CliRunner

from dpnotes.lab import cli
from dpnotes.lab.own_training import Kept, named

SCRIPT = """
import numpy as np
from dpnotes import ModelSensitivity

def train(X, y, seed, sigma=0.05):
    rows = X / np.maximum(1, np.linalg.norm(X, axis=1, keepdims=True))
    return rows.sum(axis=0) + np.random.default_rng(seed).normal(0, sigma, X.shape[1])

def quiet(X, y, seed):
    return train(X, y, seed, 20.0)

def first(result, x, label):
    return result[0]

model = ModelSensitivity(1.0, l2=0.1, norm=2.0, noise_seed=0, device="cpu")
"""


@pytest.fixture
def folder(tmp_path):
    generator = np.random.default_rng(0)
    np.savez(tmp_path / "table.npz", X=generator.normal(size=(200, 4)), y=np.arange(200) % 2)
    (tmp_path / "script.py").write_text(SCRIPT, encoding="utf-8")
    return tmp_path


def call(folder, name, *options):
    arguments = ["audit", f"{folder}/script.py:{name}", "--data", f"{folder}/table.npz", "--runs", "600", *options]
    result = CliRunner().invoke(cli.main, arguments)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


def test_a_verdict_and_its_exit_code(folder):
    code, text = call(folder, "train", "--epsilon", "1", "--delta", "1e-5")
    assert code == 1
    assert text.startswith("The claim is REFUTED")
    code, text = call(folder, "quiet", "--epsilon", "1", "--delta", "1e-5", "--score", f"{folder}/script.py:first")
    assert code == 0
    assert text.startswith("The claim is not refuted")


def test_an_estimator_has_a_claim_of_its_own(folder):
    code, text = call(folder, "model")
    assert code == 0
    assert "zero-out: epsilon 1 at delta 0" in " ".join(text.split())


def test_it_is_resumed_from_what_was_kept(folder):
    kept = folder / "kept.jsonl"
    options = ("--epsilon", "1", "--keep", str(kept))
    _, whole = call(folder, "quiet", *options)
    content = kept.read_bytes()
    assert content.count(b"\n") > 10
    kept.write_bytes(content[: len(content) // 2])  # torn in the middle of a line
    _, resumed = call(folder, "quiet", *options)
    assert kept.read_bytes() == content
    assert resumed.splitlines()[0] == whole.splitlines()[0]
    code, text = call(folder, "quiet", "--epsilon", "2", "--keep", str(kept))
    assert code == 1
    assert "is of another audit" in text


def test_kept_keeps(tmp_path):
    Kept(tmp_path / "file", "about")["scores"] = [1.0, -float("inf")]
    again = Kept(tmp_path / "file", "about")
    assert again["scores"] == [1.0, -float("inf")]
    assert len(again) == 2
    (tmp_path / "other").write_text("X,y\n")
    with pytest.raises(ValueError, match="no file of an audit"):
        Kept(tmp_path / "other", "about")


def test_what_cannot_be_found(folder):
    with pytest.raises(ValueError, match=r"must be named as FILE\.py:NAME"):
        named("script.py")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        named(f"{folder}/none.py:train")
    with pytest.raises(ValueError, match="has no 'treat'"):
        named(f"{folder}/script.py:treat")
