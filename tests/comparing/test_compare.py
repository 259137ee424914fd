import datetime
import io
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

import dpnotes
from dpnotes import accounting
from dpnotes.comparing import OURS, Candidate, MajorityClass, Task, Unsuited, compare
from dpnotes.comparing._result import COLUMNS
from dpnotes.comparing._tables import cut, synthetic

FAST = ["ClassMeans", "LossPerturbation"]


def table(n=300, d=4, seed=0):
    split = synthetic(n, d, 2, seed)
    return split.X, split.codes


@pytest.fixture(scope="module")
def result():
    X, y = load_breast_cancer(return_X_y=True)
    return compare(
        X, y, epsilon=1.0, delta=1e-5, data="public", methods=[*FAST, "PATE"], repeats=4
    )


def test_table_has_the_promised_columns_and_every_method(result):
    shown = result.table
    assert tuple(shown.columns) == COLUMNS
    assert shown["method"].iloc[0] == "no privacy"
    assert set(shown["method"]) == {*FAST, "PATE", "majority class", "no privacy"}
    known = shown.set_index("method")
    assert known.loc["PATE", "status"].startswith("needs public rows")
    # of a real release, though the comparison repeats its noise
    assert (known.loc[FAST, "status"] == "proved").all()
    assert known.loc["ClassMeans", "gap"] == pytest.approx(
        known.loc["no privacy", "accuracy"] - known.loc["ClassMeans", "accuracy"]
    )
    assert (known["low"].dropna() <= known["accuracy"].dropna()).all()


def test_best_is_an_unfitted_pipeline_with_the_whole_budget(result):
    X, y = load_breast_cancer(return_X_y=True)
    best = result.best
    assert best is not result.best
    assert not hasattr(best[-1], "profile_")
    fitted = best.fit(X, y)
    assert fitted[-1].profile_.epsilon(1e-5) <= 1.0 + 1e-9
    assert fitted[-1].profile_.adjacency == "zero-out"
    assert fitted[-1].noise_seed is None
    assert fitted.score(X, y) > 0.7


def test_what_is_printed_says_first_on_whose_data(result):
    assert "declared public" in str(result).splitlines()[0]
    assert "declared public" in result._repr_html_().split("</p>")[0]
    X, y = table()
    shape = compare(X, y, epsilon=1.0, bounds=(-1, 1), methods=FAST, repeats=2)
    assert "synthetic tables" in str(shape).splitlines()[0]
    assert "accuracy (synthetic)" in str(shape)
    assert max(map(len, str(shape).splitlines())) <= 100


def test_without_the_records_the_shape_alone_decides():
    X, y = table()
    given = {
        "epsilon": 1.0,
        "bounds": (-1, 1),
        "methods": FAST,
        "repeats": 2,
        "data": "shape",
    }
    one, other = (
        compare(X, y, **given),
        compare(np.full_like(X, np.nan), y[::-1], **given),
    )
    pd.testing.assert_frame_equal(one.scores, other.scores)
    assert str(one.best) == str(other.best)
    rows = [
        (name, 1.0, r, 0.5 + 0.4 * r * (name != "majority class"))
        for name in one.about.index
        for r in (0, 1)
    ]
    few = replace(
        one,
        scores=pd.DataFrame(rows, columns=["method", "epsilon", "repeat", "accuracy"]),
    )
    # two tables show little, but a method that may help is better than none
    assert few.chosen in FAST
    assert replace(few, data="public").chosen == "majority class"


def test_intervals_are_paired_and_corrected(result):
    values = result._repeats(None)
    difference = values["LossPerturbation"] - values["ClassMeans"]
    found = result.difference("LossPerturbation", "ClassMeans")
    assert found.mean == pytest.approx(difference.mean())
    # a third as many tested as fitted
    error = difference.std(ddof=1) * np.sqrt(1 / 4 + 1 / 3)
    # Student's t, 3 degrees of freedom
    assert found.high - found.mean == pytest.approx(3.182446 * error, rel=1e-6)


def test_the_majority_class_is_best_where_nothing_helps():
    X, _ = table(60)
    y = np.array([0, 1, 1] * 20)
    result = compare(X, y, epsilon=1.0, data="public", methods=FAST, repeats=5)
    assert result.chosen == "majority class"
    assert isinstance(result.best[-1], MajorityClass)
    assert "No method is shown to be better" in str(result)


def test_a_winner_is_ahead_of_all_others():
    X, y = table(400)
    perfect = Candidate(
        "perfect", lambda task: LogisticRegression(C=100.0), profile=claimed
    )
    flipped = Candidate("flipped", lambda task: Flipped(), profile=claimed)
    result = compare(
        X, y, epsilon=1.0, data="public", methods=[perfect, flipped], repeats=6
    )
    assert (result.winner, result.chosen) == ("perfect", "perfect")
    assert result.table.set_index("method").loc["perfect", "exactness"] == "claimed"
    twice = compare(
        X,
        y,
        epsilon=1.0,
        data="public",
        methods=[perfect, Candidate("same", perfect.make, profile=claimed)],
        repeats=3,
    )
    assert twice.winner is None
    assert "No winner" in str(twice)


def claimed(task: Task):
    return accounting.pure(task.epsilon, adjacency="zero-out").with_(
        exactness="claimed"
    )


class Flipped(LogisticRegression):
    def predict(self, X):
        return 1 - super().predict(X)


def test_a_method_that_fails_or_is_not_installed_is_left_out_with_a_word():
    X, y = table()
    absent = Candidate("absent", lambda task: None, module="no_such_package")
    broken = Candidate("broken", lambda task: LogisticRegression(C=-1.0))
    result = compare(
        X,
        y,
        epsilon=1.0,
        bounds=(-1, 1),
        methods=[absent, broken, "ClassMeans"],
        repeats=1,
    )
    assert result.left_out["absent"] == "no_such_package is not installed"
    assert result.left_out["broken"].startswith("failed: InvalidParameterError")


def test_an_interrupted_comparison_goes_on(monkeypatch):
    X, y = table()
    given = {"epsilon": 1.0, "bounds": (-1, 1), "methods": FAST, "repeats": 2}
    whole, memory = {}, {}
    result = compare(X, y, **given, memory=whole)
    for key in list(whole)[::2]:
        memory[key] = whole[key]
    again = compare(X, y, **given, memory=memory)
    pd.testing.assert_frame_equal(result.scores, again.scores)
    # nothing is computed twice
    monkeypatch.setattr("dpnotes.comparing._compare.scored", None)
    pd.testing.assert_frame_equal(
        compare(X, y, **given, memory=memory).scores, result.scores
    )


def test_many_workers_find_the_same():
    X, y = table()
    given = {"epsilon": 1.0, "bounds": (-1, 1), "methods": FAST, "repeats": 1}
    one = compare(X, y, **given)
    with parallel_config(backend="threading"):
        two = compare(X, y, **given, n_jobs=2)
    pd.testing.assert_frame_equal(one.scores, two.scores)


def test_settings_are_as_many_for_each_method():
    assert max(len(candidate.settings) for candidate in OURS) == 8
    assert all(
        len(each.settings) in (1, 8) for each in OURS if each.name != "no privacy"
    )


def test_every_estimator_of_the_package_is_a_candidate():
    methods = {
        name
        for name in dir(dpnotes.methods)
        if isinstance(kind := getattr(dpnotes.methods, name), type)
        and issubclass(kind, dpnotes.methods.PrivateClassifier)
        and hasattr(dpnotes, name)
    }
    assert methods <= {candidate.name for candidate in OURS}


@pytest.mark.parametrize("candidate", OURS, ids=lambda candidate: candidate.name)
def test_candidates_keep_to_the_budget(candidate):
    task = Task(240, 4, range(2), 1.0, 1e-2, 50, None)
    split = cut(*table(320), [0])
    # 8 models, where shards are voted on
    few = candidate.settings[1 if candidate.released == "answers" else 0]
    if candidate.name in ("PATE", "DPBag"):
        with pytest.raises(Unsuited, match="needs public rows"):
            candidate.made(task, few)
        return
    fitted = candidate.made(task, few).fit(split.X / 2, split.codes)
    if candidate.name != "no privacy":
        assert fitted.profile_.adjacency == "zero-out"
        assert fitted.profile_.delta(1.0) <= 1e-2 * (1 + 1e-9)


@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_a_part_of_the_records_has_noise_of_the_same_relative_size(delta):
    whole = Task(10_000, 4, range(2), 0.5, delta, None, None)
    part = whole.part(1000, seed=0)
    assert (part.n, part.scale) == (1000, 10.0)
    if delta:
        ratio = accounting.gaussian_sigma(0.5, delta) / accounting.gaussian_sigma(
            part.epsilon, delta
        )
        assert ratio == pytest.approx(10.0, rel=1e-6)
    else:
        assert part.epsilon == 5.0
    kind = {candidate.name: candidate for candidate in OURS}["ModelSensitivity"]
    assert (
        kind.made(part, {"strength": 3.0}).l2 == kind.made(whole, {"strength": 3.0}).l2
    )


def test_splits_hold_every_record_once_and_every_class():
    X, y = np.arange(200)[:, None].astype(float), np.repeat([0, 1, 2], [100, 96, 4])
    split = cut(X, y, [0])
    assert sorted([*split.X[:, 0], *split.X_test[:, 0]]) == list(range(200))
    assert np.bincount(split.codes_test).tolist() == [25, 24, 1]
    # evenly from all
    assert np.bincount(split.thinned(20).codes).tolist() == [10, 9, 1]
    assert len(split.thinned(20).X) == 20


def test_majority_class_is_the_most_frequent_with_the_stated_probability():
    X, y = np.zeros((30, 1)), [0] * 10 + [1] * 20
    drawn = [
        MajorityClass(0.2, noise_seed=seed).fit(X, y).class_ for seed in range(2000)
    ]
    expected = 1 / (1 + np.exp(-0.1 * 10))
    # fails once in 1e10
    assert abs(np.mean(drawn) - expected) < 6.5 * np.sqrt(
        expected * (1 - expected) / 2000
    )


def test_progress_and_figure(result, capsys):
    from matplotlib import pyplot

    X, y = table()
    compare(
        X,
        y,
        epsilon=1.0,
        bounds=(-1, 1),
        methods=["ClassMeans"],
        repeats=1,
        progress=True,
    )
    assert "fits, ClassMeans" in capsys.readouterr().err
    figure = result.plot()
    (axes,) = figure.axes
    assert {line.get_label() for line in axes.lines} >= {
        *FAST,
        "majority class",
        "no privacy",
    }
    assert len(axes.lines[0].get_xdata()) == 3
    figure.savefig(io.BytesIO())
    pyplot.close(figure)


def test_a_budget_of_seconds_ends(monkeypatch):
    clock = iter(np.arange(0.0, 1e6, 0.05))
    monkeypatch.setattr(
        "dpnotes.comparing._compare.time.perf_counter", lambda: next(clock)
    )
    X, y = table()
    result = compare(X, y, epsilon=1.0, bounds=(-1, 1), methods=FAST, seconds=5.0)
    assert 0 < len(result._repeats(None)) < 20
    assert next(clock) < 12.0


SECRET = 31337.25


@pytest.mark.parametrize(
    ("X", "y", "given", "message"),
    [
        (table()[0], table()[1], {"epsilon": 0.0}, "epsilon must be > 0"),
        (table()[0], table()[1], {"bounds": None}, "bounds must be given"),
        (table()[0], np.zeros(300), {}, "at least 2 classes"),
        (table()[0], np.full(300, np.nan), {}, "no missing labels"),
        (table()[0], np.arange(300) + SECRET, {}, "at most 50 classes"),
        (table()[0], table()[1][:-1], {}, "one label for each of 300 rows"),
        (table()[0].T, np.zeros(4), {}, "at least as many rows as columns"),
        (
            table()[0],
            np.full(300, SECRET),
            {"classes": [0, 1], "data": "public"},
            "a class with at least 4 records",
        ),
        (
            np.full((9, 2), SECRET),
            np.arange(9) % 2,
            {"bounds": None, "data": "public"},
            "constant or empty",
        ),
        (
            np.full((9, 2), f"x{SECRET}"),
            np.arange(9) % 2,
            {},
            "columns 0, 1 hold no numbers",
        ),
        (np.full((9, 2), "2020-01-01", "M8[D]"), np.arange(9) % 2, {}, "dates in 0, 1"),
        (
            pd.DataFrame({"a": [SECRET] * 9}),
            np.arange(9) % 2,
            {"bounds": {"b": (0, 1)}},
            "difference in 'a', 'b'",
        ),
        (
            pd.DataFrame({"a": [f"x{SECRET}"] * 9}),
            np.arange(9) % 2,
            {"bounds": {"a": (0, 1)}},
            "declare their categories",
        ),
        (
            pd.DataFrame({"a": [datetime.date(1999, 12, 31)] * 9}),
            np.arange(9) % 2,
            {"bounds": {"a": (0, 1)}},
            "days since a public date",
        ),
        (
            pd.DataFrame({"a": [pd.Timestamp(0, tz="UTC")] * 9}),
            np.arange(9) % 2,
            {},
            "dates in 'a'",
        ),
        (
            pd.DataFrame([[SECRET, 1]] * 9, columns=["a", "a"]),
            np.arange(9) % 2,
            {},
            "distinct names, got 'a' twice",
        ),
        (
            csr_array(np.full((9, 2), SECRET)),
            np.arange(9) % 2,
            {},
            "dense table .* got csr_array",
        ),
        (
            table()[0][:2, :2],
            np.array([str(SECRET), SECRET], dtype=object),
            {},
            "y must hold labels of one kind",
        ),
        (
            table()[0][:2, :2],
            np.array([SECRET, None], dtype=object),
            {},
            "no missing labels",
        ),
        (
            table()[0],
            np.full(300, "2020-01-01", "M8[D]"),
            {},
            "y must hold labels, got dates",
        ),
        (table()[0], table()[1], {"bounds": (1, 0)}, "low must be < high"),
        (table()[0], table()[1], {"data": "mine"}, "data must be one of"),
        (table()[0], table()[1], {"methods": ["Oracle"]}, "methods must be candidates"),
    ],
)
def test_bad_input_is_named_without_a_value(X, y, given, message):
    with pytest.raises(ValueError, match=message) as error:
        compare(
            X,
            y,
            **{
                "epsilon": 1.0,
                "bounds": (-1, 1),
                "repeats": 1,
                "methods": FAST,
                **given,
            },
        )
    assert "31337" not in str(error.value)


def test_missing_values_and_labels_that_are_not_declared_count_as_nothing():
    X, y = table(200, 2)
    missing, other = X.copy(), y.astype(object)
    missing[:20, 0], other[:20] = np.nan, SECRET
    given = {
        "epsilon": 1.0,
        "bounds": (-1, 1),
        "classes": [0, 1],
        "data": "public",
        "methods": FAST,
        "repeats": 2,
    }
    compare(missing, y, **given).best.fit(missing, y)
    without = compare(X[20:], y[20:], **given)
    pd.testing.assert_frame_equal(compare(X, other, **given).scores, without.scores)
    assert "31337" not in str(compare(X, other, **given))


def test_columns_of_pandas_own_dtypes_are_numbers_too():
    X, y = table(200, 2)
    given = {"epsilon": 1.0, "data": "public", "methods": FAST, "repeats": 1}
    frame = pd.DataFrame(np.round(100 * X), columns=["a", "b"])
    frame.loc[:9, "a"] = np.nan
    for bounds in (None, {"a": (-100, 100), "b": (-100, 100)}):
        found = compare(frame.astype("Int64"), y, bounds=bounds, **given)
        pd.testing.assert_frame_equal(
            found.scores, compare(frame, y, bounds=bounds, **given).scores
        )


def test_data_frames_are_prepared_by_what_is_declared():
    X, y = table(200, 2)
    frame = pd.DataFrame(
        {"age": 50 + 50 * X[:, 0], "job": np.where(X[:, 1] > 0, "nurse", "spy")}
    )
    bounds = {"age": (0, 100), "job": ["baker", "nurse"]}
    given = {
        "bounds": bounds,
        "classes": [0, 1],
        "data": "public",
        "methods": FAST,
        "repeats": 2,
    }
    result = compare(frame, np.r_[7, 7, y[2:]], epsilon=2.0, **given)
    assert result.task.d == 3
    told = (
        "records with a label that is missing or not among the classes (2 in all)"
        " contribute nothing"
    )
    assert any(note.startswith(told) for note in result.remarks)
    best = clone(result.estimators["ClassMeans"]).fit(frame, y)
    assert (
        best[0].transform(frame.assign(age=[None] * 200, job="spy")).tolist()
        == [[0.0, 0.0, 0.0]] * 200
    )
    assert best.predict(frame).shape == (200,)


@pytest.mark.parametrize(
    ("data", "delta", "cost"),
    [("private", 0.0, 0.2), ("private", 1e-5, 0.2), ("shape", 0.0, 0.0)],
)
def test_the_statement_counts_the_choice_and_is_made_again_from_its_json(
    monkeypatch, data, delta, cost
):
    monkeypatch.setattr("dpnotes.comparing._compare.BLOCK", 60)
    X, y = table(3000, 2)
    given = {
        "bounds": (-1, 1),
        "classes": [0, 1],
        "methods": FAST,
        "repeats": 1,
        "noise_seed": 0,
    }
    result = compare(X, y, epsilon=1.0, delta=delta, data=data, **given)
    assert (result.profile is not None) == (cost > 0)
    with pytest.raises(NotFittedError):
        result.statement(result.best)
    stated = result.statement(result.best.fit(X, y), declared={"curator": "a clinic"})
    again = accounting.PrivacyStatement.from_json(stated.to_json())
    assert (again.to_json(), again.to_html()) == (stated.to_json(), stated.to_html())
    stated.verify()
    (asked,) = stated.content["guarantee"]["asked"]
    assert asked["delta"] == delta
    assert (
        asked["epsilon"] == pytest.approx(1)
        if cost
        else 0.98 < asked["epsilon"] <= 1 + 1e-9
    )
    process = stated.content["process"]
    assert ("epsilon 0.2" if cost else "none") in process["tuning"]
    assert stated.content["release"]["curator"] == "a clinic"


def test_test_records_are_in_no_order_as_methods_answer_the_first_of_them():
    X, y = table(400)
    first = cut(X, y, [0]).codes_test[:20]
    assert 0 < first.sum() < 20
    assert not np.array_equal(first, np.sort(first))


def test_classes_of_synthetic_tables_are_equally_frequent_in_half_of_them_and_of_all_sizes():
    shares = np.array(
        [
            np.bincount(synthetic(1000, 3, 3, 9, repeat).codes, minlength=3) / 1000
            for repeat in range(60)
        ]
    )
    even = np.abs(shares - 1 / 3).max(axis=1) < 0.06
    assert 15 < even.sum() < 45
    assert shares.min() >= 0.01
    assert shares.max() > 0.7


def test_numbers_as_text_are_numbers_and_what_is_none_counts_as_missing():
    """By declared bounds and by those that are read off; one record of another type
    makes no column text.
    """
    X, y = table()
    text = X.astype(str).astype(object)
    text[0, 0] = "unknown"
    given = {"epsilon": 1.0, "methods": ["ClassMeans"], "repeats": 2, "data": "public"}
    for bounds in (None, (-1, 1)):
        found = compare(text, y, **given | {"bounds": bounds})
        assert found.accuracy("ClassMeans").mean == pytest.approx(
            compare(X, y, **given | {"bounds": bounds}).accuracy("ClassMeans").mean,
            abs=0.05,
        )
