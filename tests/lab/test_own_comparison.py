"""``dpnotes compare``: a table, what is public of it, a report; what was found is kept."""

import html

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from dpnotes.comparing import OURS, Candidate
from dpnotes.lab import cli

DECLARED = 'classes = ["no", "yes"]\n[columns]\nage = [0, 120]\n"<b>job" = ["baker", "nurse"]\n'


@pytest.fixture
def folder(tmp_path, monkeypatch):
    generator = np.random.default_rng(0)
    age, job = generator.integers(20, 80, size=240), generator.integers(2, size=240)
    ill = np.where(age + 10 * job + generator.normal(0, 5, 240) > 55, "yes", "no")
    table = pd.DataFrame({"age": age, "<b>job": np.where(job == 1, "nurse", "baker"), "ill": ill})
    table.to_csv(tmp_path / "mine.csv", index=False)
    (tmp_path / "mine.toml").write_text(DECLARED, encoding="utf-8")
    few = tuple(each for each in OURS if each.name in ("ClassMeans", "RandomTrees", "majority class", "no privacy"))
    odd = Candidate("<i>odd</i>", few[0].make)
    monkeypatch.setattr("dpnotes.comparing._compare.OURS", (*few, odd))
    return tmp_path


def call(folder, *options):
    arguments = ["compare", f"{folder}/mine.csv", "--target", "ill", "--epsilon", "2", "--repeats", "2", *options]
    result = CliRunner().invoke(cli.main, arguments)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


def test_a_comparison_and_its_report(folder):
    report = folder / "report.html"
    code, text = call(folder, "--report", str(report))
    assert code == 0
    assert "synthetic tables of this shape" in text.splitlines()[0]
    page = report.read_text(encoding="utf-8")
    body = page[page.index("<body>") :]
    assert body.index("synthetic tables of this shape") < body.index("<table")
    assert "&lt;b&gt;job" in page
    assert "&lt;i&gt;odd" in page
    assert "<b>job" not in page
    assert "<i>odd" not in page
    assert "<svg" in page
    assert "<script" not in page
    found = {}
    code = html.unescape(page[page.index("<pre>") + 5 : page.index("</pre>")])
    exec(code.replace("'mine.csv'", repr(str(folder / "mine.csv"))), found)  # as a reader would paste it
    assert found["model"].score(found["X"], found["y"]) > 0.5
    assert set(found["y"]) == {"no", "yes"}


def test_what_is_not_declared_is_asked_for_by_name(folder):
    (folder / "mine.toml").unlink()
    code, text = call(folder)
    assert code == 1
    assert text.endswith('"age" = []\n"<b>job" = []\n')
    assert "nurse" not in text
    code, text = call(folder, "--public")
    assert code == 0
    assert "declared public" in text.splitlines()[0]


def test_values_that_are_not_read_are_told_of_a_public_table_alone(folder):
    frame = pd.read_csv(folder / "mine.csv", dtype=str)
    frame.mask(frame.index.to_numpy()[:, None] < [9, 0, 0]).to_csv(folder / "mine.csv", index=False)
    told = [call(folder, *options)[1].count("9 of 'age' are missing") for options in (["--public"], [])]
    assert told == [1, 0]


def test_it_is_resumed_from_what_was_kept(folder):
    kept = folder / "kept.jsonl"
    _, whole = call(folder, "--keep", str(kept))
    content = kept.read_bytes()
    kept.write_bytes(content[: len(content) // 2])  # torn in the middle of a line
    _, resumed = call(folder, "--keep", str(kept))
    assert len(kept.read_bytes().splitlines()) == len(content.splitlines())
    assert resumed.splitlines()[:3] == whole.splitlines()[:3]
    code, text = call(folder, "--keep", str(kept), "--public")
    assert code == 1
    assert "belongs to another comparison" in text


def test_bad_input_is_one_line(folder):
    assert "--public and --shape exclude each other" in call(folder, "--public", "--shape")[1]
    code, text = call(folder, "--target", "missing")
    assert code == 1
    assert "there is no column 'missing'" in text
    code, text = call(folder, "--report", f"{folder}/absent/report.html")
    assert code == 1
    assert "an existing folder" in text
    code, text = call(folder, "--epsilon", "0")
    assert code == 1
    assert "epsilon must be > 0" in text


@pytest.mark.parametrize(
    ("table", "declared", "message"),
    [
        ({"ill": "31337"}, 'classes = ["no", "yes"]', "the target 'ill' has 240 values that are not among classes"),
        ({"ill": None}, 'classes = ["no", "yes"]', "the target 'ill' has 240 missing values"),
        ({"born": "3133-07-01"}, "[columns]\nborn = [0, 1]", "dates can be given as days since a public one"),
        ({"age": None}, "[columns]\nage = [0, 120]", "'age': all values are missing"),
        ({}, f'[columns]\n"<b>job" = {[str(i) for i in range(300)]}', "more features than records"),
    ],
)
@pytest.mark.parametrize("options", [(), ("--shape",)])
def test_bad_tables_are_named_without_a_value(folder, table, declared, message, options):
    frame = pd.read_csv(folder / "mine.csv").assign(**table)
    frame.to_csv(folder / "mine.csv", index=False)
    (folder / "mine.toml").write_text(declared, encoding="utf-8")
    code, text = call(folder, *options)
    assert code == 1
    assert message in text
    assert "3133" not in text
