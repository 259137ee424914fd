"""The sets that a comparison was built on are not those that it is judged on."""

import tomllib
from pathlib import Path

from dpnotes import data

ROOT = Path(__file__).parents[2]
SETS = tomllib.loads((ROOT / "benchmarks" / "data_sets.toml").read_text(encoding="utf-8"))
OF_SCIKIT_LEARN = {"wine"}  # the others are those of dpnotes.data


def test_sets_are_split_by_source_in_halves():
    development, sealed = SETS["development"], SETS["sealed"]
    assert not set(development) & set(sealed)
    assert len(development) == len(sealed) == 4
    assert {*development, *sealed} - OF_SCIKIT_LEARN <= set(data.NAMES)


def test_nothing_of_the_comparison_names_a_sealed_set():
    files = [*(ROOT / "dpnotes" / "comparing").rglob("*.py"), *(ROOT / "tests" / "comparing").glob("test_compare*.py")]
    assert files
    for path in files:
        text = path.read_text(encoding="utf-8").lower()
        assert not [name for name in SETS["sealed"] if name in text.replace("-", "_")], path
