"""CIFAR-10 in the bagging chapter: settings, rows of Tables 2b and 3b, a reduced scale, and what they cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dpnotes.lab._experiment import Experiment, Grid, paper_table
from dpnotes.lab.bagging.grids import PATE, budgets, noises
from dpnotes.lab.bagging.networks import FINE_TUNING, IMAGENET, VGG16
from dpnotes.lab.bagging.rates import RATES, decimal, with_rates

RECORDS = 50_000
HUNDRED = "cifar100_subset"
PUBLIC: dict[str, dict[str, Any]] = {  # the public models of Case II
    IMAGENET: {"public": IMAGENET},
    HUNDRED: {"public": HUNDRED, "public_epochs": 10},  # as Fashion-MNIST for MNIST, at the rate from scratch
}
NETWORKS: dict[str, dict[str, Any]] = {
    "paper": {"architecture": "vgg16", **VGG16, "epochs": 100},
    "reduced": {"architecture": "vgg5", "width": 16, "kernel_size": 3, "padding": 1, "epochs": 30},
}
# What the paper leaves open: batches as on MNIST, no augmentation or weight decay (the paper names none), optimiser and
# rate by the rows of bagging_cifar10_settings, on held-out training rows.
OPTIMIZERS: dict[str, tuple[tuple[str, float], ...]] = {
    "paper": (("adam", 1e-3), ("adam", 1e-4)),
    "reduced": (("adam", 1e-3), ("adam", 1e-4), ("momentum", 1e-2)),
}
SETTINGS: dict[str, dict[str, Any]] = {
    "paper": {"batch_size": 32, "optimizer": "adam", "learning_rate": 1e-4},
    "reduced": {"batch_size": 32, "optimizer": "adam", "learning_rate": 1e-3},
}
SETTINGS_RUNS: dict[str, tuple[int, int, int]] = {  # of a candidate: records, epochs, seeds
    "paper": (500, 5, 1),
    "reduced": (1000, 30, 2),
}
# DP-SGD: the batch is the one that the paper's epsilons imply (claim 7), the clipping norm is that of Table 2a, and the
# rate is carried over from there by the noise; at the reduced scale it is chosen on held-out training rows.
DP_SGD: dict[str, dict[str, Any]] = {
    "paper": {"epochs": 100, "batch_size": 128, "clipping_norm": 1.0},
    "reduced": {"epochs": 2, "batch_size": 128, "clipping_norm": 1.0},
}
REDUCED_RATES = {"given": 0.05, "least": 1.5}  # with the paper's noise, and with the least
REDUCED_SIZES = (1000, 5000)
REDUCED_BUDGET = (0.1, 0.095, 11.5)  # of bagging with k = 5,000, and the paper's noise there
CPU = {"vgg16": 42.0, "vgg5": 2200.0}  # images a second that one core trains on, measured; by DP-SGD two thirds
GPU = {"plain": 5000.0, "private": 2000.0}  # images a second that a GPU would train VGG16 on: estimates


def cifar10_grid(public: str = IMAGENET) -> Grid:
    """Bagging rows of Tables 2b and 3b, cheap ones first: three seeds, and one where all records are used.

    ``public``: where Case II starts from, ``"imagenet"`` or ``"cifar100_subset"``.
    """
    common = {**_data("paper"), "n_models": 1, "replace": True}
    rows = []
    for table, start in (("2b", _case_1("paper")), ("3b", _case_2("paper", public))):
        sizes = paper_table(f"bagging_table{table[0]}").query("table == @table and method == 'Bagging'")["k"]
        drawn = [(int(size), seed) for size in sizes for seed in range(3)]
        rows += [{**common, **start, "subsample": k, "seed": seed} for k, seed in [*drawn, (None, 0)]]
    return sorted(rows, key=seconds)


def cifar10_dp_sgd_grid(public: str = IMAGENET) -> Grid:
    """DP-SGD rows of Tables 2b and 3b: the paper's noise, and the least noise for the same budget; one seed."""
    rows = []
    for table, case in (("2b", _case_1("paper")), ("3b", _case_2("paper", public))):
        common = {**_data("paper"), **_private(case, "paper"), "seed": 0}
        asked = noises(common, budgets(f"bagging_table{table[0]}", table))
        rows += with_rates(asked, n=RECORDS, factor=_slower(case))
    return rows


def cifar10_pate_grid(public: str = IMAGENET) -> Grid:
    """PATE rows of Table 3b: 250 teachers for 1,000 epochs, stopped after the paper's numbers of answers."""
    counts = paper_table("bagging_table3").query("table == '3b' and method == 'PATE'")["n_queries"].astype(int)
    start = {name: value for name, value in _case_2("paper", public).items() if name != "part"}
    common = {**_data("paper"), **PATE["paper"], **start, "epochs": 1000, "queries": 1000, "teachers_seed": 0}
    return [{**common, "answers": count, "seed": seed} for count in counts for seed in range(3)]


def cifar10_settings_grid() -> Grid:
    """Candidates for optimiser and rate of bagging, scored on held-out training rows; cheap ones first."""
    rows = []
    for scale, (size, epochs, seeds) in SETTINGS_RUNS.items():
        common = {**_data(scale), "part": "validation", "n_models": 1, "replace": True, "subsample": size}
        common |= {"batch_size": SETTINGS[scale]["batch_size"], "epochs": epochs}
        rows += [
            {**common, "optimizer": optimizer, "learning_rate": rate, "seed": seed}
            for optimizer, rate in OPTIMIZERS[scale]
            for seed in range(seeds)
        ]
    return sorted(rows, key=seconds)


def reduced_grid() -> Grid:
    """Bagging at the reduced scale, from scratch and from CIFAR-100, three seeds."""
    common = {**_data("reduced"), "n_models": 1, "replace": True}
    return [
        {**common, **start, "subsample": size, "seed": seed}
        for size in REDUCED_SIZES
        for seed in range(3)
        for start in (_case_1("reduced"), _case_2("reduced", HUNDRED))
    ]


def reduced_dp_sgd_grid() -> Grid:
    """DP-SGD at the reduced scale, from scratch and from CIFAR-100, three seeds: the paper's noise, and the least."""
    return [
        {**_reduced(case, noise, rate), "seed": seed}
        for case in (_case_1("reduced"), _case_2("reduced", HUNDRED))
        for noise, rate in REDUCED_RATES.items()
        for seed in range(3)
    ]


def reduced_dp_sgd_settings_grid() -> Grid:
    """Candidates for the rate of DP-SGD at the reduced scale, from scratch, on held-out training rows."""
    case = {**_case_1("reduced"), "part": "validation"}
    return [_reduced(case, noise, rate) for noise in REDUCED_RATES for rate in RATES["network"]]


def images(parameters: Mapping[str, Any]) -> float:
    """Images that a row trains on, all epochs and models together, a public model and shared teachers not counted."""
    if "n_teachers" in parameters:
        return float(parameters["answers"] * parameters["student_epochs"])
    drawn = parameters.get("subsample") or RECORDS
    return float(drawn * parameters.get("n_models", 1) * parameters["epochs"])


def seconds(parameters: Mapping[str, Any]) -> float:
    """Seconds of one row on one core, measured; PATE's with a ninth of its teachers, whom nine rows share."""
    teachers = RECORDS * parameters["epochs"] / 9 if "n_teachers" in parameters else 0.0
    rate = CPU[parameters["architecture"]] * (2 / 3 if "clipping_norm" in parameters else 1)
    return (images(parameters) + teachers) / rate


def gpu_hours(parameters: Mapping[str, Any]) -> float:
    """Hours of one row on a GPU at the rates of :data:`GPU`, which are estimates."""
    teachers = RECORDS * parameters["epochs"] / 9 if "n_teachers" in parameters else 0.0
    rate = GPU["private" if "clipping_norm" in parameters else "plain"]
    return (images(parameters) + teachers) / rate / 3600


def experiments(
    ensemble: Callable[..., dict[str, Any]],
    dp_sgd: Callable[..., dict[str, Any]],
    pate: Callable[..., dict[str, Any]],
) -> list[Experiment]:
    """The experiments on CIFAR-10, as runs of the chapter's three functions."""
    bagged, noisy = {"accuracy": 0.03, "delta": 1e-12}, {"accuracy": 0.03, "sigma": 1e-3, "advantage": 1e-4}
    voted = {"accuracy": 0.05, "answered": 5, "right": 0.05, "agreement": 0.02, "plurality": 0.02, "asked": 20}
    return [
        Experiment("bagging_cifar10", ensemble, {"paper": cifar10_grid}, bagged, seconds),
        Experiment("bagging_cifar10_dp_sgd", dp_sgd, {"paper": cifar10_dp_sgd_grid}, noisy, seconds),
        Experiment("bagging_cifar10_pate", pate, {"paper": cifar10_pate_grid}, voted, seconds),
        Experiment("bagging_cifar10_settings", ensemble, {"paper": cifar10_settings_grid}, bagged, seconds),
        Experiment("bagging_reduced", ensemble, {"paper": reduced_grid}, bagged, seconds),
        Experiment("bagging_reduced_dp_sgd", dp_sgd, {"paper": reduced_dp_sgd_grid}, noisy, seconds),
        Experiment("bagging_reduced_dp_sgd_settings", dp_sgd, {"paper": reduced_dp_sgd_settings_grid}, noisy, seconds),
    ]


def _data(scale: str) -> dict[str, Any]:
    names = ("architecture", "width", "kernel_size", "padding")
    return {"dataset": "cifar10", **{name: NETWORKS[scale][name] for name in names}}


def _case_1(scale: str) -> dict[str, Any]:
    return {"part": "test", "epochs": NETWORKS[scale]["epochs"], **SETTINGS[scale]}


def _case_2(scale: str, public: str) -> dict[str, Any]:
    if public not in PUBLIC:
        raise ValueError(f"public must be one of {', '.join(map(repr, PUBLIC))}, got public={public!r}")
    rate = SETTINGS[scale]["learning_rate"]
    start = {**PUBLIC[public], **({"public_rate": rate} if "public_epochs" in PUBLIC[public] else {})}
    return {**_case_1(scale), "part": "rest", **start, "learning_rate": FINE_TUNING * rate}


def _private(case: Mapping[str, Any], scale: str) -> dict[str, Any]:
    """The same case by DP-SGD: its part and start, without a rate."""
    start = {name: case[name] for name in ("part", "public", "public_epochs", "public_rate") if name in case}
    return {**start, **DP_SGD[scale]}


def _slower(case: Mapping[str, Any]) -> float:
    """Factor of the rate: a tenth from a public model."""
    return FINE_TUNING if "public" in case else 1.0


def _reduced(case: Mapping[str, Any], noise: str, rate: float) -> dict[str, Any]:
    """One row of DP-SGD at the reduced scale, with the paper's noise ("given") or with the least."""
    given, least = noises({**_data("reduced"), **_private(case, "reduced"), "seed": 0}, [REDUCED_BUDGET])
    return {**(given if noise == "given" else least), "learning_rate": decimal(_slower(case) * rate)}
