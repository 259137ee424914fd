"""The experiments that the paper chapters show are those of the stored rows."""

import json

import numpy as np
import pytest

from dpnotes import data, learners, methods
from dpnotes.lab import bagging, chapters, dpbag, experiment, intrinsic_sgd as isgd


def executed(name, begins, **names):
    """Names after the cell of a chapter that begins so."""
    cells = json.loads(chapters.chapter(name).source.read_text(encoding="utf-8"))
    code = ["".join(cell["source"]) for cell in cells["cells"]]
    (own,) = [source for source in code if source.startswith(begins)]
    exec(own, names)
    return names


@pytest.mark.parametrize("subsample", [50, None])
def test_the_network_of_table_2a_is_that_of_its_rows(subsample):
    modules = {"bagging": bagging, "data": data, "methods": methods}
    shown = executed("bagging", "@experiment", experiment=experiment, **modules)
    row = bagging.grids.table2a("quick", seeds=1)[-1]
    row |= {"epochs": 1, "device": "cpu", "subsample": subsample}
    assert shown["train"](**row) == bagging.experiments.ensemble(**row)


def test_the_student_of_the_labels_is_that_of_its_rows(capsys):
    shown = executed(
        "dpbag",
        'thirds = dpbag.runs.thirds("breast_cancer", seed=0)  #',
        dpbag=dpbag,
        methods=methods,
    )
    row = {"dataset": "breast_cancer", "teachers": "logistic", "seed": 0}
    budget = {"accountant": "tight", "epsilon": 5.0, "delta": 1e-3, "device": "cpu"}
    stored = dpbag.experiments.student(n_teachers=20, n_partitions=10, **row, **budget)
    assert len(shown["model"].labels_) == stored["labels"]
    assert shown["auroc"] == stored["auroc"]
    assert capsys.readouterr().out.count("partitions") == 3


def test_sigma_and_sensitivity_are_those_of_the_rows(capsys):
    from scipy.spatial.distance import pdist

    modules = {"isgd": isgd, "learners": learners, "np": np, "pdist": pdist}
    shown = executed("intrinsic_sgd", "records = ", **modules)
    ends = shown["ends"]
    sigma = isgd.runs.weight_stds(ends)["sigma"]
    assert shown["sigma"] == pytest.approx(sigma, rel=1e-12)
    assert shown["sensitivity"] == isgd.runs.sensitivities(ends)["observed"]
    assert "sigma intrinsic" in capsys.readouterr().out


@pytest.mark.parametrize("batch", [100, 300, 499, 501, 1000])
def test_the_page_on_batches_counts_each_visit_of_a_record(batch, capsys):
    """A record that is first in each pass, whose last incomplete batch is left out."""
    n = 1000
    steps = 100
    shown = executed(
        "batches",
        "import math",
        noise_multiplier=2.0,
        n=n,
        batch=batch,
        steps=steps,
        delta=1e-5,
    )
    starts = [start for start in range(0, n, batch) if start + batch <= n]
    order = starts * steps
    assert shown["passes"] == order[:steps].count(0)
    assert "shuffled, zero-out" in capsys.readouterr().out
