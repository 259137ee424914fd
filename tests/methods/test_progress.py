"""The bar of a long fit: at a terminal only, and of public numbers."""

import io
import sys

import pytest
import tqdm

from tests.attacks.ours import SETTINGS, estimator, table

# their loops end when the records say so, or are short
SILENT = {
    "AugmentedSGD",
    "ClassMeans",
    "LossPerturbation",
    "ModelSensitivity",
    "PredictionSensitivity",
}
X, Y = table(61)


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("name", SETTINGS)
def test_a_bar_counts_what_is_known_before_the_fit(name, monkeypatch):
    shown = []

    def bar(things, label, total, **_):
        things = list(things)
        shown[-1].append((label, len(things), total))
        return things

    monkeypatch.setattr(tqdm, "tqdm", bar)
    monkeypatch.setattr(sys, "stderr", Terminal())
    other = X.copy()
    other[0] *= -1000
    for rows in (X, other):
        shown.append([])
        estimator(name)(rows, Y)
    assert shown[0] == shown[1]
    assert bool(shown[0]) == (name not in SILENT)
    for label, counted, total in shown[0]:
        assert label == SETTINGS[name][0].__name__
        assert counted == total


def test_a_fit_is_silent_in_a_pipe(capsys):
    estimator("NoisyBoosting")(X, Y)
    assert capsys.readouterr().err == ""


def test_a_terminal_sees_the_bar_of_a_long_fit(monkeypatch):
    monkeypatch.setattr("dpnotes._progress.DELAY", 0.0)
    monkeypatch.setattr(sys, "stderr", Terminal())
    estimator("DPSGD")(X, Y)
    assert "DPSGD: " in sys.stderr.getvalue()
    assert "/4 " in sys.stderr.getvalue()
