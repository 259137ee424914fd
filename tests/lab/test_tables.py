"""Tables of pages: what is declared of columns is what is shown."""

import pandas as pd
import pytest

from dpnotes.lab.tables import Column, Table, columns, show

ROWS = pd.DataFrame({"method": ["bagging", "none"], "sigma": [0.123456, 2.0], "accuracy": [0.5, float("nan")]})


def shown(table):
    return table(ROWS).to_html()


def test_labels_are_shown_and_other_values_stay():
    page = shown(Table("Methods.", (Column("method", "by", labels={"none": "no privacy"}), "sigma")))
    assert "no privacy" in page
    assert "bagging" in page
    assert ">none<" not in page
    assert "by</th>" in page
    assert "method" not in page


def test_columns_of_one_format_have_their_own_headings():
    page = shown(Table("Numbers.", (*columns("{:.2f}", "sigma"), *columns("{:.0%}", accuracy="correct"))))
    assert "0.12</td>" in page
    assert "2.00</td>" in page
    assert "50%</td>" in page
    assert "correct</th>" in page
    assert "accuracy" not in page


@pytest.mark.parametrize("name", ["accuracy", "absent"])
def test_an_empty_cell_shows_the_gap_of_its_column(name):
    page = shown(Table("Gaps.", ("method", Column(name, gap="not run yet"))))
    assert page.count("not run yet") == (1 if name == "accuracy" else 2)


def test_text_is_shown_as_it_is():
    frame = pd.DataFrame({"<name>": ["a < b & c", "<b>bold</b>", "$x < y$"]})
    page = show(frame, caption="All <i>text</i>.").to_html()
    for text in ("&lt;name&gt;", "a &lt; b &amp; c", "&lt;b&gt;bold&lt;/b&gt;", r"\(x &lt; y\)", "All &lt;i&gt;text"):
        assert text in page


def test_formulas_are_marked_for_mathjax():
    frame = pd.DataFrame({"claim": ["at most $2k$", "none"], "n": [1, 2]})
    shown = show(frame, caption="For $n$ records.").to_html()
    assert r'at most <span class="math notranslate nohighlight">\(2k\)</span>' in shown
    assert r'For <span class="math notranslate nohighlight">\(n\)</span> records.' in shown
    assert frame["claim"][0] == "at most $2k$"
