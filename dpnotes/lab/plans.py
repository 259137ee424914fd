"""What a chapter would run, told from its parameters before a kernel is started: rows, and the data that they need."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dpnotes import data
from dpnotes.lab import bagging, dpbag, intrinsic_sgd, own_data, private_prediction
from dpnotes.lab._experiment import Grid
from dpnotes.lab._shared import lacking
from dpnotes.lab.experiments import find

Plan = list[tuple[str, Grid, str]]  # experiment, rows, compute


def check_plan(chapter: str, parameters: Mapping[str, Any]) -> None:
    """Make all grids of a run, and look for the data sets of the rows that it would compute.

    Parameters
    ----------
    chapter : str
        A chapter without experiments needs nothing; evidence is of the experiments of its chapter.
    parameters : mapping of str to object
        All of the chapter's.

    Raises
    ------
    ValueError
        If a grid cannot be made of the parameters, or a reader's own file cannot be taken.
    FileNotFoundError
        If a data set or a file is not here; the message says what would bring it.
    """
    of = chapter.removesuffix("_evidence")
    if of not in PLANS:
        return
    needed: dict[str, int] = {}
    for name, grid, compute in PLANS[of](parameters):
        experiment = find(name)
        if compute == "missing":
            grid = lacking(name, grid)
        for row in grid if compute != "stored" else ():
            for dataset in dict.fromkeys(experiment.data(row)):
                needed[dataset] = needed.get(dataset, 0) + 1
    if absent := data.absent(needed):
        how = "; ".join(f"dpnotes data fetch {name}" for name in absent)
        raise FileNotFoundError(
            f"chapter {chapter!r} would run {sum(needed[name] for name in absent)} rows that need "
            f"{' and '.join(map(repr, absent))}, not in {data.data_folder()}: {how}; "
            "or give -p scale quick, or -p compute stored to see what is published"
        )


def _bagging(p: Mapping[str, Any]) -> Plan:
    grids, quick = bagging.grids, p["scale"] == "quick"
    if p["dataset"]:
        own_data.reference(p["dataset"], p["target"])
        return []
    long = p["compute"] if p["gaps"] != "shown" or quick else "stored"
    as_paper, longest = ("stored" if quick else long), (p["compute"] if p["gaps"] == "all" and not quick else "stored")
    scale, few, public = p["scale"], 1 if quick else 3, p["public"]
    sizes, seeds = tuple(p["subsample_sizes"]), min(p["seeds"], 2) if quick else p["seeds"]
    return [
        ("bagging_table2a", grids.table2a(scale, subsamples=sizes, seeds=seeds), p["compute"]),
        ("bagging_dp_sgd", grids.dp_sgd(scale), long),
        ("bagging_dp_sgd", grids.one_rate(), as_paper),
        ("bagging_case2", grids.case2(scale, seeds=few), long),
        ("bagging_pate", grids.pate(scale, seeds=few), long),
        ("bagging_case2_dp_sgd", grids.case2_dp_sgd(scale), long),
        ("bagging_case2_dp_sgd", grids.one_rate("3a"), as_paper),
        ("bagging_cifar10", grids.cifar10(public), longest),
        ("bagging_cifar10_dp_sgd", grids.cifar10_dp_sgd(public), longest),
        ("bagging_cifar10_pate", grids.cifar10_pate(public), longest),
        ("bagging_reduced", grids.reduced(), as_paper),
        ("bagging_reduced_dp_sgd", grids.reduced_dp_sgd(), as_paper),
        ("bagging_membership", grids.membership(scale), long),
        ("bagging_equal", grids.equal(scale, seeds=few), long),
        ("bagging_hog", grids.hog(), as_paper),
        ("bagging_hog_dp_sgd", grids.hog_dp_sgd(), as_paper),
        ("bagging_private_base", grids.private_base(scale, seeds=1 if quick else 10), long),
    ]


def _dpbag(p: Mapping[str, Any]) -> Plan:
    grids, quick, compute, seeds = dpbag.grids, p["scale"] == "quick", p["compute"], p["seeds"]
    if p.get("dataset"):
        own_data.reference(p["dataset"], p["target"])
        return []
    boosted = compute if p["boosting"] else "stored"
    small, few = "breast_cancer" if quick else "adult", min(seeds, 2) if quick else seeds
    return [
        ("dpbag_adult_logistic", grids.student(small, "logistic", seeds=min(seeds, 4) if quick else seeds), compute),
        ("dpbag_adult_boosting", grids.student("adult", "boosting", seeds=seeds), boosted),
        (
            "dpbag_diabetes_logistic",
            grids.student("diabetes130", "logistic", seeds=seeds),
            "stored" if quick else compute,
        ),
        ("dpbag_diabetes_boosting", grids.student("diabetes130", "boosting", seeds=seeds), boosted),
        ("dpbag_filtered", grids.filtered(small, seeds=few), compute),
    ]


def _intrinsic_sgd(p: Mapping[str, Any]) -> Plan:
    grids = intrinsic_sgd.grids
    others = ("compute", "scale", "device")
    settings = grids.settings(p["scale"], **{name: value for name, value in p.items() if name not in others})
    made = {
        "summary": grids.with_networks(settings),
        "distances": grids.distances(settings),
        "utility": grids.utilities(settings),
        "trajectories": grids.trajectories(settings),
        "hyperparameters": grids.hyperparameters(settings),
        "draws": grids.draws(settings),
        "scaling": grids.scalings(settings),
        "repeats": grids.repeats(settings),
        "cost": settings if p["scale"] == "paper" and not p["dataset"] else [],
        "audit": grids.audits(settings),
        "last_iterate": grids.last_iterates(settings),
    }
    return [(f"intrinsic_sgd_{name}", grid, p["compute"]) for name, grid in made.items()]


def _private_prediction(p: Mapping[str, Any]) -> Plan:
    grids, compute = private_prediction.grids, p["compute"]
    if p.get("dataset"):
        own_data.reference(p["dataset"], p["target"])
        return []
    if p["scale"] == "quick":
        return [("private_prediction_privacy", grids.quick(), compute)]
    made = {**grids.GRIDS, "times": grids.times}
    return [(f"private_prediction_{name}", make(), compute) for name, make in made.items()]


PLANS: dict[str, Callable[[Mapping[str, Any]], Plan]] = {
    "bagging": _bagging,
    "dpbag": _dpbag,
    "intrinsic_sgd": _intrinsic_sgd,
    "private_prediction": _private_prediction,
}
