"""What one meets first: the import, the version, the README, the files beside it."""

import re
import subprocess
import sys
from importlib import metadata

import pytest

import dpnotes


def test_import_is_cheap():
    """Under half a second, and none of the heavy libraries."""
    code = """
import sys, time
start = time.perf_counter()
import dpnotes
seconds = time.perf_counter() - start
import dpnotes.accounting
heavy = {"torch", "seaborn", "opacus", "sklearn", "pandas", "matplotlib"} & set(sys.modules)
assert seconds < 0.5, seconds
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_names_of_the_package():
    assert dpnotes.Bagging is not None
    assert dpnotes.accounting.bagging is not None
    assert {"Bagging", "accounting"} <= set(dir(dpnotes))
    with pytest.raises(AttributeError, match="module 'dpnotes' has no attribute 'Baging'"):
        _ = dpnotes.Baging


def test_version_is_in_one_place(repository):
    assert metadata.version("dpnotes") == dpnotes.__version__
    for name in ("pyproject.toml", "CITATION.cff", "_config.yml"):
        text = (repository / name).read_text(encoding="utf-8")
        assert not re.search(rf'^\s*version\s*[:=]\s*"?{re.escape(dpnotes.__version__)}', text, re.M)
    assert dpnotes.__version__ in (repository / "README.md").read_text(encoding="utf-8").partition("## Changes")[2]


def test_readme_code_runs(repository, capsys):
    blocks = re.findall(r"```python\n(.*?)```", (repository / "README.md").read_text(encoding="utf-8"), re.S)
    library, cluster = blocks
    exec(compile(library, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert float(printed.splitlines()[0]) > 0.7
    assert "PrivacyProfile of bagging(n=1500, subsample=100, n_models=5" in printed
    compile(cluster, "README.md", "exec")  # run on a real cluster by tests/sweep


def test_readme_names_what_is_there(repository):
    text = (repository / "README.md").read_text(encoding="utf-8")
    for path in re.findall(r"`((?:book|dpnotes|tests)/[\w/.]+)`", text):
        assert (repository / path).exists(), path
    for path in re.findall(r"!\[[^]]+\]\(([^)]+)\)", text):
        assert (repository / path).exists(), path
    for target in re.findall(r"`make (\w+)`", text):
        assert re.search(rf"^{target}:", (repository / "Makefile").read_text(encoding="utf-8"), re.M)


def test_licence_and_types_are_shipped(repository):
    assert "Apache License" in (repository / "LICENSE").read_text(encoding="utf-8")
    assert (repository / "dpnotes" / "py.typed").exists()
