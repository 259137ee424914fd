"""Merges of stores, by git itself in a repository of its own."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from dpnotes.lab.store import merge, read_store
from dpnotes.lab.store._format import Contents, Row, render

WHO = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")


def written(path, rows, **metrics):
    """A store of rows ``{x: y}``, each with the metrics besides."""
    made = [Row("toy.f", {"x": x}, {"y": y, **metrics}, {"seconds": 0.5}) for x, y in rows.items()]
    path.write_bytes(render(Contents().updated({row.key: row for row in made})))


@pytest.fixture
def git(tmp_path, environment):
    driver = f"{shlex.quote(sys.executable)} -m dpnotes results merge %O %A %B %P"

    def run(*arguments, check=True):
        command = ["git", *WHO, *arguments]
        return subprocess.run(
            command, cwd=tmp_path, env=environment, check=check, capture_output=True, text=True, timeout=600
        )

    run("init", "-q", "-b", "main")
    run("config", "merge.dpnotes-rows.driver", driver)
    (tmp_path / ".gitattributes").write_text("*.csv merge=dpnotes-rows\n")
    written(tmp_path / "toy.csv", {1: 1, 2: 4})
    return run


def branches(git, path, ours, theirs):
    git("add", ".")
    git("commit", "-q", "-m", "base")
    for name, change in (("theirs", theirs), ("ours", ours)):
        git("checkout", "-q", "-b", name, "main")
        change(path)
        git("commit", "-q", "-a", "-m", name)
    return git("merge", "-q", "--no-edit", "theirs", check=False)


def test_git_merges_rows_of_both_branches(git, tmp_path):
    path = tmp_path / "toy.csv"
    merged = branches(
        git,
        path,
        lambda path: written(path, {1: 1, 2: 4, 3: 9}),
        lambda path: written(path, {1: 1, 2: 5, 4: 16}, extra=True),
    )
    assert merged.returncode == 0, merged.stdout + merged.stderr
    table = read_store(path)
    assert dict(zip(table["x"], table["y"], strict=True)) == {1: 1, 2: 5, 3: 9, 4: 16}
    assert table["extra"].isna().sum() == 1
    assert git("status", "--porcelain").stdout == ""


def test_git_stops_where_both_branches_have_other_metrics(git, tmp_path):
    path = tmp_path / "toy.csv"
    merged = branches(git, path, lambda path: written(path, {1: 1, 2: 5}), lambda path: written(path, {1: 1, 2: 6}))
    assert merged.returncode == 1
    said = merged.stdout + merged.stderr
    assert "both sides changed 1 rows of 'toy.f'" in said
    assert "({'x': 2}): {'y': 5} here, {'y': 6} there" in said
    assert read_store(path)["y"].tolist() == [1, 5]
    assert git("status", "--porcelain").stdout.startswith("UU toy.csv")


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "merged"),
    [
        ({}, {1: 1}, {2: 2}, {1: 1, 2: 2}),
        ({}, {1: 1}, {1: 1}, {1: 1}),
        ({1: 1, 2: 2}, {1: 1}, {1: 1, 2: 2}, {1: 1}),
        ({1: 1, 2: 2}, {1: 1, 2: 2}, {2: 2}, {2: 2}),
        ({1: 1}, {1: 3}, {1: 1}, {1: 3}),
        ({1: 1}, {1: 1}, {1: 3}, {1: 3}),
        ({1: 1}, {1: 3}, {}, None),
        ({}, {1: 1}, {1: 2}, None),
    ],
)
def test_each_row_is_as_the_side_that_changed_it_has_it(tmp_path, base, ours, theirs, merged):
    paths = [tmp_path / name for name in ("base", "ours", "theirs")]
    for path, rows in zip(paths, (base, ours, theirs), strict=True):
        written(path, rows) if rows else Path.touch(path)
    if merged is None:
        before = paths[1].read_bytes()
        with pytest.raises(ValueError, match="both sides changed 1 rows"):
            merge(*paths)
        assert paths[1].read_bytes() == before
    else:
        assert merge(*paths)[0] == len(merged)
        table = read_store(paths[1])
        assert dict(zip(table["x"], table["y"], strict=True)) == merged
