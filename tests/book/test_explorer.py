"""The figure with sliders shows in a browser what the library computes."""

import numpy as np
import pytest

from dpnotes.lab import explorer
from dpnotes.lab.store import book_folder

PAGE = book_folder() / "_build" / "html" / "book" / "explorer.html"

pytestmark = pytest.mark.needs("browser", "pages")
SETTINGS = [
    {},
    {"n": 3.0, "k": 2.0, "N": 10, "noise": 1.5, "times": 9, "sigma": 3, "q": -1, "T": 2, "beta": 0, "B": 1},
    {"n": 2.5, "k": 4.5, "N": 1, "noise": 20.0, "times": 1, "sigma": -1, "q": -3, "T": 4, "beta": -2, "B": 3},
]

SHOWN = """async places => {
  const view = document.getElementById('tradeoff-explorer').view;
  for (const [name, place] of Object.entries(places)) view.signal(`at_${name}`, place);
  await view.runAsync();
  const tuples = Object.keys(view._runtime.data).flatMap(name => view.data(name));
  const found = {};
  for (const {method, alpha, tpr} of tuples) {
    if (typeof tpr === 'number') (found[method] ??= {})[alpha] = tpr;
  }
  return Object.fromEntries(Object.entries(found).map(([method, points]) => [method, Object.entries(points)]));
}"""


@pytest.mark.parametrize("moved", SETTINGS)
def test_curves_are_those_of_the_library(tab, moved):
    tab.goto(PAGE.as_uri())
    tab.wait_for_function("document.getElementById('tradeoff-explorer').view")
    places = {slider.name: slider.start for slider in explorer.SLIDERS} | moved
    shown = tab.evaluate(SHOWN, places)
    assert sorted(shown) == sorted(explorer.NAMES)
    values = {name: explorer.value_of(name, place) for name, place in places.items()}
    for method, points in shown.items():
        alphas, rates = np.array([[float(alpha), rate] for alpha, rate in points]).T
        assert sorted(alphas) == pytest.approx(explorer.RATES, rel=1e-12)
        assert rates == pytest.approx(1 - explorer.profile(method, values).tradeoff(alphas), rel=1e-4)
    assert tab.faults == []


def test_sliders_can_be_moved_by_the_keyboard(tab):
    tab.goto(PAGE.as_uri())
    tab.wait_for_function("document.getElementById('tradeoff-explorer').view")
    slider = tab.get_by_label("bagging: models N")
    slider.focus()
    tab.keyboard.press("ArrowRight")
    assert tab.evaluate("document.getElementById('tradeoff-explorer').view.signal('at_N')") == 2
