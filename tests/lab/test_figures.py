"""Tables and figures: what they compare is correct, gaps are named, axes are
labelled.
"""

from io import BytesIO

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt

from dpnotes import accounting
from dpnotes.lab import figures
from dpnotes.lab.tables import Column, Table, columns, show

REPRODUCED = pd.DataFrame(
    {
        "k": [1.0, 2.0, 3.0],
        "published": [0.5, 0.6, np.nan],
        "reproduced": [0.45, np.nan, 0.9],
        "low": [0.4, np.nan, 0.9],
        "high": [0.5, np.nan, 0.9],
    }
)


@pytest.mark.parametrize(
    "make",
    [
        lambda: figures.tradeoff(
            {
                "a": accounting.bagging(n=9, subsample=2),
                "b": accounting.gaussian(sigma=1.0),
            }
        ),
        lambda: figures.roc(
            {
                "a": accounting.bagging(n=9, subsample=2),
                "b": accounting.gaussian(sigma=1.0),
            }
        ),
        lambda: figures.privacy_profiles(
            {"a": accounting.bagging(n=9, subsample=2), "b": accounting.pure(1.0)}
        ),
        lambda: figures.growth(
            [1, 10],
            {"a": [0.0, 1.0], "b": [2.0, 3.0]},
            xlabel="n (log)",
            ylabel="epsilon (log)",
        ),
        lambda: figures.stacked_counts(
            pd.DataFrame(
                {"proved": [2, 0], "wrong": [1, 3]},
                index=pd.Index(["a", "b"], name="paper"),
            ),
            xlabel="n",
        ),
        lambda: figures.membership(np.eye(4, dtype=bool), 1),
        lambda: figures.reproduction(
            REPRODUCED,
            x="k",
            metric="accuracy",
            xlabel="k (log)",
            ylabel="accuracy",
        ),
        lambda: figures.intervals(
            pd.DataFrame(
                {
                    "label": ["a", "a", "b"],
                    "value": [1.5, 0.5, 4.5],
                    "low": 0.4,
                    "high": 5.0,
                    "sure": [True, False, True],
                    "note": "between",
                }
            ),
            xlabel="margin (log)",
            ylabel="job",
            outcomes=("reached", "missed"),
            level=1.0,
            xscale="log",
        ),
        lambda: figures.point_panels(
            {"one": {"a": ([1, 2], [3, 4]), "b": ([1, 2], [4, 3])}},
            xlabel="x (log)",
            ylabel="y",
        ),
        lambda: figures.line_panels(
            {"x (log)": {"a": ([1, 2], [0.3, 0.4]), "b": ([1, 2], [0.4, 0.3])}},
            ylabel="y",
        ),
    ],
    ids=[
        "tradeoff",
        "roc",
        "profiles",
        "growth",
        "counts",
        "membership",
        "reproduction",
        "intervals",
        "points",
        "lines",
    ],
)
def test_figures_are_labelled_and_leave_nothing_open(make, tmp_path):
    figures.use_style()
    before = plt.get_fignums()
    figure = make()
    assert plt.get_fignums() == before  # shown once, where it is returned
    assert len(figure.axes) >= 1
    for axes in figure.axes:
        assert axes.get_xlabel()
        assert axes.get_ylabel()
        if axes.get_xscale() == "log":
            assert "(log)" in axes.get_xlabel()
    assert figure.legends or figure.axes[0].get_legend()
    figure.savefig(tmp_path / "figure.png")
    size = figure.get_size_inches().tolist()
    legends = list(figure.legends)
    height, width, _ = plt.imread(BytesIO(figures.narrow(figure))).shape
    # letters are as large as in the usual picture
    assert width <= 1.05 * 4.4 * 2 * figure.dpi
    assert height >= width or len(figure.axes) == 1  # panels under each other
    assert (figure.get_size_inches().tolist(), figure.legends) == (size, legends)


def test_what_only_its_own_width_makes_legible_has_no_picture_for_a_phone():
    assert (
        figures.narrow(figures.matrix(pd.DataFrame(np.eye(3)), label="value")) is None
    )


def test_no_two_curves_look_the_same():
    styles = figures.line_styles(30)
    assert len({(style["color"], str(style["linestyle"])) for style in styles}) == 30
    with pytest.raises(ValueError, match="count=31"):
        figures.line_styles(31)


METHODS = pd.DataFrame(
    {
        "method": ["bagging", "none"],
        "sigma": [0.123456, 2.0],
        "accuracy": [0.5, float("nan")],
    }
)


def shown(table):
    return table(METHODS).to_html()


def test_labels_are_shown_and_other_values_stay():
    page = shown(
        Table(
            "Methods.", (Column("method", "by", labels={"none": "no privacy"}), "sigma")
        )
    )
    assert "no privacy" in page
    assert "bagging" in page
    assert ">none<" not in page
    assert "by</th>" in page
    assert "method" not in page


def test_headings_and_the_index_of_rows_may_have_repetitions():
    same = Table("Values.", columns("{:.1f}", sigma="value", accuracy="value"))
    page = same(pd.concat([METHODS, METHODS])).to_html()
    assert page.count(">value</th>") == 2
    assert page.count(">0.5</td>") == 2


@pytest.mark.parametrize("name", ["accuracy", "absent"])
def test_an_empty_cell_shows_the_gap_of_its_column(name):
    page = shown(Table("Gaps.", ("method", Column(name, gap="not run yet"))))
    assert page.count("not run yet") == (1 if name == "accuracy" else 2)


def test_text_is_shown_as_it_is():
    frame = pd.DataFrame({"<name>": ["a < b & c", "<b>bold</b>", "$x < y$"]})
    page = show(frame, caption="All <i>text</i>.").to_html()
    for text in (
        "&lt;name&gt;",
        "a &lt; b &amp; c",
        "&lt;b&gt;bold&lt;/b&gt;",
        r"\(x &lt; y\)",
        "All &lt;i&gt;text",
    ):
        assert text in page


def test_formulas_are_marked_for_mathjax():
    frame = pd.DataFrame({"claim": ["at most $2k$", "none"], "n": [1, 2]})
    shown = show(frame, caption="For $n$ records.").to_html()
    assert r'at most <span class="math notranslate nohighlight">\(2k\)</span>' in shown
    assert (
        r'For <span class="math notranslate nohighlight">\(n\)</span> records.' in shown
    )
    assert frame["claim"][0] == "at most $2k$"
