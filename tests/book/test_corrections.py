"""Corrections to the papers: each script is short, needs no package of ours, and
prints what its page says.
"""

import io
import json
import re
from contextlib import redirect_stdout

import numpy as np
import pytest

from dpnotes.lab import chapters, ledger

PAGES = {
    chapter.name: chapter
    for chapter in chapters.all_chapters()
    if chapter.folder == "book/corrections"
}


def code(name):
    """Source of the two cells that are the script: parameters and what follows."""
    found = json.loads(PAGES[name].source.read_text())["cells"]
    return ["".join(cell["source"]) for cell in found if cell["cell_type"] == "code"][
        :2
    ]


def printed(name, **changes):
    """What the script prints, with other parameters."""
    parameters, script = code(name)
    names = {"__name__": "script"}
    exec(parameters, names)
    assert changes.keys() <= names.keys()
    with redirect_stdout(io.StringIO()) as out:
        exec(script, names | changes)
    return out.getvalue()


def numbers(line):
    return [
        float(text)
        for text in re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?:e-?\d+)?(?!\w)", line)
    ]


@pytest.mark.parametrize("name", PAGES)
def test_a_script_is_short_and_stands_alone(name):
    script = "\n".join(code(name))
    assert sum(bool(line.strip()) for line in script.splitlines()) <= 40
    modules = set(re.findall(r"^(?:from|import) (\w+)", script, re.MULTILINE))
    assert modules <= {"fractions", "itertools", "math", "numpy", "scipy"}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_names_claims_that_there_are(name):
    first = "".join(json.loads(PAGES[name].source.read_text())["cells"][0]["source"])
    (row,) = re.findall(r"^\| ledger \| (.+)", first, re.MULTILINE)
    named = {int(number) for number in re.findall(r"claim (\d+)", row)}
    assert named
    assert named <= {claim.number for claim in ledger.LEDGER}


def test_bagging_has_one_delta_for_every_epsilon():
    rows = [line.split()[-5:] for line in printed("bagging_epsilon").splitlines()[2:]]
    claimed = [float(row[1]) for row in rows]
    assert claimed == pytest.approx([1 - 0.8**4, 0.8, 0.8], abs=1e-9)
    exact = np.array([row[2:] for row in rows], dtype=float)
    assert (exact == [[0.5904] * 3, [0.64] * 3, [0.8] * 3]).all()


def test_one_moved_vote_is_two_beta():
    rows = np.array(
        [
            line.split()
            for line in printed("private_prediction_theorem7").splitlines()[2:]
        ],
        dtype=float,
    )
    answers, two, ten, delta, half_two, half_ten = rows.T
    assert two[answers <= 10] == pytest.approx(2)
    assert (two > 1).all()
    assert (ten > 1).all()
    assert (half_two <= 1).all()
    assert (half_ten <= 1).all()
    assert (delta[answers <= 10] > 1e-5).all()
    assert (delta[answers >= 100] < 1e-20).all()


def test_two_models_are_enough():
    """By hand: log((1 + e^2) / 2)."""
    row = printed("private_prediction_theorem7", T=2).splitlines()[2].split()
    assert float(row[1]) == pytest.approx(np.log((1 + np.e**2) / 2), abs=1e-4)


def test_the_length_of_the_student_tells_the_data_sets_apart():
    one, other = printed("dpbag_theorem6").splitlines()
    assert "has 27 weights" in one
    assert "has 7 weights" in other


def test_counts_are_those_of_another_delta():
    lines = printed("dpbag_delta").splitlines()
    assert lines[0].startswith("delta = 0.001: 12 of 12")
    assert lines[1].startswith("delta = 1e-05: 0 of 12")
    assert numbers(lines[2])[-2:] == [5, 12]
    for line in lines[-2:]:
        low, high, tight_low, tight_high = numbers(line)
        assert 1 < low < high < 2
        # "below the printed epsilon in every cell"
        assert 0.5 < tight_low < tight_high < 1


def test_distances_exceed_what_is_printed_and_no_whole_visit():
    rows = np.array(
        [line.split()[1:] for line in printed("intrinsic_sgd_passes").splitlines()[1:]],
        dtype=float,
    )
    k, claimed, reached, bound, epsilon = rows.T
    assert (reached > claimed + 5e-4).all()
    assert (reached > 0.99 * bound).all()
    assert (reached <= bound).all()
    assert (np.ceil(k) > k).all()
    assert (epsilon > [7.88, 2.80, 6.95]).all()


def test_a_shared_draw_hides_how_much_noise_varies():
    same, _, own, seed0, seeds = printed("intrinsic_sgd_draws").splitlines()
    assert same.endswith("True")
    own_std = numbers(own)[-1]
    *_, low, high, std_low, std_high = numbers(seeds)
    assert std_high < own_std / 2
    assert high - low > 2 * own_std
    assert std_low <= numbers(seed0)[-1] <= std_high
