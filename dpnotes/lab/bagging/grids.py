"""Grids of the bagging chapter: which rows each table and figure of the paper needs, and what they cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpnotes.accounting import bagging
from dpnotes.lab._experiment import Grid, paper_table
from dpnotes.lab.bagging.networks import DP_SGD, FINE_TUNING, NETWORKS, PUBLIC
from dpnotes.lab.bagging.rates import BATCHES, NOISES, RATES, SHORT, dp_sgd_rate, with_rates

SUBSAMPLES = {"paper": (300, 500, 1000, 5000, 10_000), "quick": (50, 100, 200)}
CASE_2 = {"paper": (500, 1000, 5000), "quick": (50, 100)}  # Table 3a, Figure 2
MORE_SEEDS = {500: 10, 1000: 10}  # of Figure 2, where a run takes seconds: fixed before they were run
MODELS: dict[str, dict[int, tuple[int, ...]]] = {  # Figure 1: N for each N k
    "paper": {500: (1, 2, 5, 10, 25, 50), 1000: (1, 2, 5, 10, 25, 50), 5000: (1, 5, 25)},
    "quick": {100: (1, 2, 5)},
}
RECORDS = {"paper": 60_000, "quick": 1442}  # training records of MNIST, and of digits in our split
DATASETS = {"paper": "mnist", "quick": "digits"}
SIZES = {DATASETS[scale]: count for scale, count in RECORDS.items()}
CANDIDATES = [
    {"width": width, "optimizer": optimizer, "learning_rate": rate}
    for width in (16, 32)
    for optimizer, rate in (("adam", 1e-3), ("momentum", 1e-2))
]
PATE: dict[str, dict[str, Any]] = {
    "paper": {
        "n_teachers": 250,
        "threshold": 200.0,
        "sigma_threshold": 150.0,
        "sigma_answer": 40.0,
        "epochs": 100,
        "student_epochs": 1000,
    },
    "quick": {
        "n_teachers": 10,
        "threshold": 8.0,
        "sigma_threshold": 4.0,
        "sigma_answer": 2.0,
        "epochs": 20,
        "student_epochs": 100,
    },
}
LOGISTIC_TEACHERS = 1 / 240  # scikit-learn's own penalty, C = 1, for the 240 records of a teacher
MEMBERSHIP: dict[str, dict[str, Any]] = {
    "paper": {"subsample": 300, "n_networks": 32, "flipped": 0.02, "others": 5000},
    "quick": {"subsample": 100, "n_networks": 16, "flipped": 0.05, "others": 0},
}
# Short runs of DP-SGD, one tenth of the epochs.
EQUAL: dict[str, dict[str, Any]] = {
    "paper": {"epochs": SHORT, "batch_size": BATCHES["network"]},
    "quick": {"epochs": 5, "batch_size": 256, "learning_rate": 0.5},
}
EQUAL_LINEAR: dict[str, dict[str, Any]] = {
    "paper": {"width": None, "batch_size": BATCHES["linear"]},
    "quick": {"width": None, "learning_rate": 0.5},
}
PRIVATE_BASE: dict[str, dict[str, Any]] = {
    "paper": {"dataset": "mnist", "subsample": 2000, "delta": 1e-5, "l2": 0.01},
    "quick": {"dataset": "digits", "subsample": 400, "delta": 1e-5, "l2": 0.01},
}


def table2a_grid(scale: str, *, subsamples: tuple[int, ...] = (), seeds: int = 5) -> Grid:
    """Rows of Table 2a: one network on one subsample with replacement, for each size, and one on all records.

    ``scale="paper"`` is MNIST with 100 epochs, ``"quick"`` scikit-learn's digits. ``subsamples``: other sizes than the
    scale's own. The network on all records is trained with at most three seeds (ten minutes each on one core).
    """
    dataset = _dataset(scale)
    common = {"dataset": dataset, "part": "test", "n_models": 1, "replace": True, **NETWORKS[dataset]}
    whole: list[tuple[int | None, int]] = [(None, seed) for seed in range(min(seeds, 3 if scale == "paper" else 1))]
    drawn = [(k, seed) for k in sorted(subsamples or SUBSAMPLES[scale], reverse=True) for seed in range(seeds)]
    return [{**common, "subsample": k, "seed": seed} for k, seed in [*whole, *drawn]]


def settings_grid() -> Grid:
    """Candidates for what the paper leaves open, at two of its sizes, scored on held-out training rows."""
    common = {"dataset": "mnist", "part": "validation", "n_models": 1, "replace": True}
    return [
        {**common, **NETWORKS["mnist"], **candidate, "subsample": k, "seed": seed}
        for candidate in CANDIDATES
        for k in (300, 1000)
        for seed in range(3)
    ]


def dp_sgd_grid(scale: str) -> Grid:
    """DP-SGD rows of Table 2a: the paper's noise, and the least noise at the same (epsilon, delta); one seed.

    Each has the learning rate that short runs on held-out rows choose for its noise. ``scale="quick"`` is
    scikit-learn's digits at one budget of the same kind.
    """
    common = _dp_sgd(scale, part="test")
    if scale == "quick":
        return noises(common, [(0.1, 0.1, 8.0)])
    return with_rates(noises(common, budgets("bagging_table2", "2a")), n=RECORDS[scale])


def one_rate_grid() -> Grid:
    """DP-SGD at the noises of Table 2a, all with the learning rate of the public example of the paper's library."""
    rows = noises(_dp_sgd("paper", part="test"), budgets("bagging_table2", "2a"))
    return [row for row in rows if row["noise_multiplier"] is not None]


def table3a_grid(scale: str, *, seeds: int = 3) -> Grid:
    """Bagging rows of Table 3a: the same from a public model, scored on the test rows that stay private; and the whole.

    ``scale="quick"`` has no public images besides its own, and trains from scratch. One network on all records.
    """
    common = _case_2(scale)
    drawn = [{**common, "subsample": k, "seed": seed} for k in CASE_2[scale] for seed in range(seeds)]
    return [*drawn, {**common, "subsample": None, "seed": 0}]


def figure1_grid(scale: str, *, seeds: int = 3) -> Grid:
    """Accuracy against the number of models when N k is fixed at a size of Table 3a; N = 1 is the table's own row."""
    common = _case_2(scale)
    return [
        {**common, "subsample": drawn // n_models, "n_models": n_models, "seed": seed}
        for drawn, counts in MODELS[scale].items()
        for n_models in counts
        for seed in range(seeds)
    ]


def figure2_grid(scale: str, *, seeds: int = 3) -> Grid:
    """Subsamples with and without replacement at the sizes of Table 3a; more seeds where three are asked for."""
    common = _case_2(scale)
    return [
        {**common, "replace": replace, "subsample": k, "seed": seed}
        for k in CASE_2[scale]
        for replace in (True, False)
        for seed in range(seeds if seeds < 3 else max(seeds, MORE_SEEDS.get(k, 0)))
    ]


def case2_grid(scale: str, *, seeds: int = 3) -> Grid:
    """All of bagging's rows of Case II, each once, cheap ones first."""
    grids = [*table3a_grid(scale, seeds=seeds), *figure1_grid(scale, seeds=seeds), *figure2_grid(scale, seeds=seeds)]
    once = {tuple(sorted(row.items(), key=str)): row for row in grids}
    return sorted(once.values(), key=lambda row: (ensemble_seconds(row), row["n_models"]))


def pate_grid(scale: str, *, seeds: int = 3) -> Grid:
    """PATE rows of Table 3a: one ensemble of teachers, the paper's query counts in both readings, and further noise.

    ``answers`` is None where the aggregator is put ``queries`` queries, and otherwise the answers after which it stops.
    The paper's teachers are networks; the rows with ``l2`` have logistic ones, which train in seconds.
    """
    dataset = _dataset(scale)
    names = ("width", "kernel_size", "padding", "batch_size", "optimizer")
    common = {"dataset": dataset, **{name: NETWORKS[dataset][name] for name in names}, **PATE[scale], **_start(dataset)}
    paper = paper_table("bagging_table3").query("table == '3a' and method == 'PATE'")["n_queries"].astype(int).tolist()
    counts, n_public = (paper, 1000) if scale == "paper" else ([30], 100)
    readings: Grid = [{"queries": n_public, "answers": count} for count in counts]
    readings += [{"queries": count, "answers": None} for count in counts]
    teachers: Grid = [{"epochs": None, "l2": LOGISTIC_TEACHERS}, {"epochs": common.pop("epochs")}]
    return [
        {**common, **kind, "teachers_seed": 0, **reading, "seed": seed}
        for kind in (teachers if scale == "paper" else teachers[1:])
        for reading in readings
        for seed in range(seeds)
    ]


def case2_dp_sgd_grid(scale: str) -> Grid:
    """DP-SGD rows of Table 3a, from the public model with a tenth of the rate: the paper's noise, and the least."""
    common = {**_dp_sgd(scale, part="rest"), **PUBLIC.get(_dataset(scale), {})}
    if scale == "quick":
        return noises(common, [(0.1, 0.1, 8.0)])
    return with_rates(noises(common, budgets("bagging_table3", "3a")), n=RECORDS[scale], factor=FINE_TUNING)


def membership_grid(scale: str) -> Grid:
    """Both attacks at three false-positive rates, on records as they are and on mislabelled ones: the same networks."""
    dataset = _dataset(scale)
    common = {"dataset": dataset, **NETWORKS[dataset], **MEMBERSHIP[scale], "seed": 0}
    return [
        {**common, "attack": attack, "false_positive_rate": rate, "mislabelled": mislabelled}
        for attack in ("loss", "likelihood-ratio")
        for mislabelled in (False, True)
        for rate in (0.001, 0.01, 0.1)
    ]


def equal_grid(scale: str, *, seeds: int = 3) -> Grid:
    """DP-SGD as exposing as bagging of each size of Table 2a: in total variation, and at 0.1% false positives.

    Softmax regression and the network of Table 2a; at the quick scale softmax regression at one size.
    """
    rows = []
    for size in SUBSAMPLES[scale][:1] if scale == "quick" else SUBSAMPLES[scale]:
        share = bagging(n=RECORDS[scale], subsample=size).advantage
        at_rare = {"noise_multiplier": None, "epsilon": None, "delta": None, "found": share}
        at_all = {"noise_multiplier": None, "epsilon": 0.0, "delta": share}
        for model in ("linear", "network") if scale == "paper" else ("linear",):
            for noise in (at_rare, at_all):
                row = {**_equal(scale, model), **noise}
                if scale == "paper":
                    row["learning_rate"] = dp_sgd_rate(model, row, n=RECORDS[scale])
                rows += [{**row, "seed": seed} for seed in range(seeds)]
    return sorted(rows, key=lambda row: (dp_sgd_seconds(row), row["epsilon"] == 0.0))


def dp_sgd_settings_grid() -> Grid:
    """Candidates for the learning rate of the short DP-SGD runs at four noises, on held-out training rows."""
    return [
        {
            **_equal("paper", model),
            "part": "validation",
            "noise_multiplier": noise,
            "epsilon": None,
            "delta": None,
            "learning_rate": rate,
            "seed": 0,
        }
        for noise in NOISES
        for model, rates in RATES.items()
        for rate in rates
    ]


def private_base_grid(scale: str, *, seeds: int = 10) -> Grid:
    """Three base learners of growing epsilon on a subsample, the same without noise, and each on all records."""
    common = PRIVATE_BASE[scale]
    return [
        {**common, "part": "test", "way": way, "epsilon": epsilon, "seed": seed}
        for epsilon in (1.0, 3.0, 10.0)
        for way in ("bagged", "direct", "bare")
        for seed in range(seeds)
        if way != "bare" or epsilon == 1.0  # without noise there is no epsilon to vary
    ]


def private_base_settings_grid() -> Grid:
    """Candidates for the penalty, for the private base learner of the middle epsilon, on held-out rows."""
    common = {**PRIVATE_BASE["paper"], "part": "validation", "way": "bagged", "epsilon": 3.0}
    return [{**common, "l2": l2, "seed": seed} for l2 in (0.1, 0.03, 0.01, 0.003, 0.001) for seed in range(5)]


def ensemble_seconds(parameters: Mapping[str, Any]) -> float:
    """Measured on one core: 9,000 images a second with width 16, a third of it with width 32."""
    rows = (parameters["subsample"] or 60_000) * parameters["n_models"] * parameters["epochs"]
    return float(rows / 9000 * (parameters["width"] / 16) ** 1.6)


def dp_sgd_seconds(parameters: Mapping[str, Any]) -> float:
    """Measured on one core: 6,700 images a second with width 16, and 200,000 for softmax regression."""
    rows = SIZES[parameters["dataset"]] * parameters["epochs"]
    if parameters["width"] is None:
        return float(rows / 200_000)
    return float(rows / 6700 * (parameters["width"] / 16) ** 1.6)


def membership_seconds(parameters: Mapping[str, Any]) -> float:
    """A twelfth of the networks, which the rows of a process share."""
    return ensemble_seconds({**parameters, "n_models": parameters["n_networks"]}) / 12


def pate_seconds(parameters: Mapping[str, Any]) -> float:
    """The student of one row, and a ninth of the teachers, whom the rows of a process share."""
    teachers = SIZES[parameters["dataset"]] * (parameters["epochs"] or 0) / 9
    student = (parameters["answers"] or parameters["queries"]) * parameters["student_epochs"]
    return float((teachers + student) / 9000 * (parameters["width"] / 16) ** 1.6)


def _dataset(scale: str) -> str:
    if scale not in DATASETS:
        raise ValueError(f"scale must be one of {', '.join(map(repr, DATASETS))}, got scale={scale!r}")
    return DATASETS[scale]


def _case_2(scale: str) -> dict[str, Any]:
    dataset = _dataset(scale)
    common = {"dataset": dataset, "part": "rest", "n_models": 1, "replace": True}
    return {**common, **NETWORKS[dataset], **_start(dataset)}


def _start(dataset: str) -> dict[str, Any]:
    """The public model that training starts from, and the rate at which it goes on."""
    rate = NETWORKS[dataset]["learning_rate"]
    if dataset not in PUBLIC:
        return {"learning_rate": rate}
    return {"learning_rate": FINE_TUNING * rate, **PUBLIC[dataset]}


def _equal(scale: str, model: str) -> dict[str, Any]:
    dataset = _dataset(scale)
    common = {"dataset": dataset, "part": "test", **_shape(dataset), "clipping_norm": 1.0, **EQUAL[scale]}
    return {**common, **(EQUAL_LINEAR[scale] if model == "linear" else {})}


def _dp_sgd(scale: str, *, part: str) -> dict[str, Any]:
    dataset = _dataset(scale)
    return {"dataset": dataset, "part": part, **_shape(dataset), **DP_SGD[dataset], "seed": 0}


def _shape(dataset: str) -> dict[str, Any]:
    return {name: NETWORKS[dataset][name] for name in ("width", "kernel_size", "padding")}


def budgets(name: str, table: str) -> list[tuple[float, float, float]]:
    """(epsilon, delta, sigma) of DP-SGD in a published table, in its order."""
    lines = paper_table(name).query("table == @table and method == 'DPSGD'")
    return list(lines[["epsilon", "delta", "sigma"]].itertuples(index=False, name=None))


def noises(common: Mapping[str, Any], budgets: list[tuple[float, float, float]]) -> Grid:
    """DP-SGD at each (epsilon, delta, sigma), the last one first: with sigma, and with the least noise."""
    given = [{**common, "noise_multiplier": sigma, "epsilon": None, "delta": None} for _, _, sigma in budgets]
    least = [{**common, "noise_multiplier": None, "epsilon": eps, "delta": delta} for eps, delta, _ in budgets]
    return [row for pair in zip(reversed(given), reversed(least), strict=True) for row in pair]
