"""Grids of the bagging chapter: which rows each table and figure of the paper needs, at four scales.

``"paper"`` is MNIST and ``"quick"`` scikit-learn's digits; ``"cifar10"`` and ``"reduced"`` are CIFAR-10 with VGG16 and
with five convolutions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from dpnotes._validation import one_of
from dpnotes.accounting import bagging
from dpnotes.lab._experiment import Grid, paper_table
from dpnotes.lab.bagging.costs import RECORDS as RECORDS_OF
from dpnotes.lab.bagging.costs import seconds
from dpnotes.lab.bagging.networks import IMAGENET, VGG16
from dpnotes.lab.bagging.rates import BATCHES, NOISES, RATES, SHORT, decimal, dp_sgd_rate, with_rates

DATASETS = {"paper": "mnist", "quick": "digits", "cifar10": "cifar10", "reduced": "cifar10"}
RECORDS = {scale: RECORDS_OF[dataset] for scale, dataset in DATASETS.items()}
SUBSAMPLES = {"paper": (300, 500, 1000, 5000, 10_000), "quick": (50, 100, 200)}
CASE_2 = {"paper": (500, 1000, 5000), "quick": (50, 100)}  # Table 3a, Figure 2
MORE_SEEDS = {500: 10, 1000: 10, 5000: 13}  # of Figure 2: the rule that judges it had seen three of each
TUNING: dict[tuple[str, float], tuple[int | None, ...]] = {  # and their sizes; None is all records
    ("adam", 3e-5): (500, 1000, 5000, None), ("adam", 1e-5): (500,), ("momentum", 1e-3): (500,),
}  # fmt: skip
MODELS: dict[str, dict[int, tuple[int, ...]]] = {  # Figure 1: N for each N k
    "paper": {500: (1, 2, 5, 10, 25, 50), 1000: (1, 2, 5, 10, 25, 50), 5000: (1, 5, 25)},
    "quick": {100: (1, 2, 5)},
}
REDUCED_SIZES = (1000, 5000)
# The paper names two convolutions with pooling and one linear layer on MNIST, VGG16 on CIFAR-10, and 100 epochs. The
# rest is chosen on held-out training rows, never on the test set, by the rows of bagging_settings and of
# bagging_cifar10_settings: see the chapter. No augmentation or weight decay (the paper names none).
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "paper": {"width": 16, "kernel_size": 5, "padding": 0},
    "quick": {"width": 16, "kernel_size": 3, "padding": 1},
    "cifar10": {"architecture": "vgg16", **VGG16},
    "reduced": {"architecture": "vgg5", "width": 16, "kernel_size": 3, "padding": 1},
}
OPTIMIZERS: dict[str, dict[str, Any]] = {
    "paper": {"batch_size": 32, "optimizer": "adam", "learning_rate": 1e-3},
    "quick": {"batch_size": 32, "optimizer": "adam", "learning_rate": 3e-3},
    "cifar10": {"batch_size": 32, "optimizer": "adam", "learning_rate": 1e-4},
    "reduced": {"batch_size": 32, "optimizer": "adam", "learning_rate": 1e-3},
}
EPOCHS = {"paper": 100, "quick": 20, "cifar10": 100, "reduced": 30}
ALL_RECORDS_EPOCHS = {**EPOCHS, "quick": 8}  # of networks, or of teachers together, that train on all records
CANDIDATES = [(width, *pair) for width in (16, 32) for pair in (("adam", 1e-3), ("momentum", 1e-2))]
CIFAR10_CANDIDATES: tuple[tuple[str, int, int, int, tuple[tuple[str, float], ...]], ...] = (
    ("reduced", 1000, 30, 2, (("adam", 1e-3), ("adam", 1e-4), ("momentum", 1e-2))),  # records, epochs, seeds
    ("cifar10", 500, 5, 1, (("adam", 1e-3), ("adam", 1e-4))),  # the rate in use was taken from these
    ("cifar10", 1000, 30, 3, (("adam", 1e-3), ("adam", 3e-4), ("adam", 1e-4), ("adam", 3e-5))),
)
# The public models of Case II, and the tenth of a learning rate with which the paper goes on from one. The quick scale
# has no public images besides its own.
PUBLIC: dict[str, tuple[str, ...]] = {"paper": ("fashion_mnist",), "cifar10": (IMAGENET, "cifar100_subset")}
FINE_TUNING = 0.1
# Batch and clipping norm of DP-SGD on MNIST are the defaults of the public example of the library that the paper uses
# (TensorFlow Privacy), and so is the rate, which suits little noise only: dpnotes.lab.bagging.rates chooses it for each
# noise. On CIFAR-10 the batch is the one that the paper's epsilons imply (claim 7).
DP_SGD: dict[str, dict[str, Any]] = {
    "paper": {"epochs": 100, "batch_size": 256, "clipping_norm": 1.0, "learning_rate": 0.15},
    "quick": {"epochs": 3, "batch_size": 64, "clipping_norm": 1.0, "learning_rate": 0.5},
    "cifar10": {"epochs": 100, "batch_size": 128, "clipping_norm": 1.0},
    "reduced": {"epochs": 2, "batch_size": 128, "clipping_norm": 1.0},
}
REDUCED_RATES = {"given": 0.05, "least": 1.5}  # with the paper's noise, and with the least
REDUCED_BUDGET = (0.1, 0.095, 11.5)  # of bagging with k = 5,000, and the paper's noise there
QUICK_BUDGET = (0.1, 0.1, 8.0)
PATE: dict[str, dict[str, Any]] = {
    "paper": {"n_teachers": 250, "threshold": 200.0, "sigma_threshold": 150.0, "sigma_answer": 40.0},
    "quick": {"n_teachers": 10, "threshold": 8.0, "sigma_threshold": 4.0, "sigma_answer": 2.0},
}
TEACHERS_A_ROW = 10
TEACHER = (  # parameters of PATE that decide its teachers, beside their number and seed
    "dataset", "epochs", "l2", "architecture", "width", "kernel_size", "padding", "batch_size", "optimizer",
    "learning_rate", "public", "public_epochs", "public_rate",
)  # fmt: skip
STUDENT_EPOCHS = {"paper": 1000, "quick": 100}
LOGISTIC_TEACHERS = 1 / 240  # scikit-learn's own penalty, C = 1, for the 240 records of a teacher
MEMBERSHIP: dict[str, dict[str, Any]] = {
    "paper": {"subsample": 300, "n_networks": 32, "flipped": 0.02, "others": 5000},
    "quick": {"subsample": 100, "n_networks": 16, "flipped": 0.05, "others": 0},
}
EQUAL: dict[str, dict[str, dict[str, Any]]] = {  # short runs of DP-SGD, one tenth of the epochs
    "paper": {
        "linear": {"epochs": SHORT, "batch_size": BATCHES["linear"], "width": None},
        "network": {"epochs": SHORT, "batch_size": BATCHES["network"]},
    },
    "quick": {"linear": {"epochs": 5, "batch_size": 256, "learning_rate": 0.5, "width": None}},
}
PRIVATE_BASE: dict[str, dict[str, Any]] = {
    "paper": {"dataset": "mnist", "subsample": 2000, "delta": 1e-5, "l2": 0.01},
    "quick": {"dataset": "digits", "subsample": 400, "delta": 1e-5, "l2": 0.01},
}


def table2a(scale: str, *, subsamples: tuple[int, ...] = (), seeds: int = 5) -> Grid:
    """Rows of Table 2a: one network on one subsample with replacement, for each size, and one on all records.

    ``subsamples``: other sizes than the scale's own. The network on all records is trained with at most three seeds
    (ten minutes each on one core). ValueError if a size is not between 1 and the number of training records.
    """
    if wrong := [size for size in subsamples if not 1 <= size <= RECORDS[scale]]:
        raise ValueError(
            f"subsample_sizes must be in [1, {RECORDS[scale]}], the records of {DATASETS[scale]} at scale {scale!r}, "
            f"got {wrong[0]} in {list(subsamples)}"
        )
    common = _case_1(scale)
    sizes = sorted(subsamples or SUBSAMPLES[scale], reverse=True)
    whole = [
        {**_on_all_records(common, scale), "seed": seed} for seed in range(min(seeds, 3 if scale == "paper" else 1))
    ]
    return [*whole, *({**common, "subsample": k, "seed": seed} for k in sizes for seed in range(seeds))]


def settings() -> Grid:
    """Candidates for what the paper leaves open, at two of its sizes, scored on held-out training rows."""
    common = {**_case_1("paper"), "split": "validation"}
    return [
        {**common, "width": width, "optimizer": optimizer, "learning_rate": rate, "subsample": k, "seed": seed}
        for width, optimizer, rate in CANDIDATES
        for k in (300, 1000)
        for seed in range(3)
    ]


def dp_sgd(scale: str) -> Grid:
    """DP-SGD rows of Table 2a: the paper's noise, and the least noise at the same (epsilon, delta); one seed.

    Each has the learning rate that short runs on held-out rows choose for its noise. The quick scale has one budget of
    the same kind.
    """
    return _two_noises(_private(scale), scale, "2a")


def one_rate(table: str = "2a") -> Grid:
    """DP-SGD at the noises of Table 2a or 3a, all with the learning rate of the public example of the paper's library.

    From the public model (Table 3a) it is a tenth of it, as for all other rows there.
    """
    common = _private("paper")
    if table == "3a":
        tenth = FINE_TUNING * common["learning_rate"]
        common = {**common, "split": "rest", **_start("paper"), "learning_rate": tenth}
    return [row for row in noises(common, budgets(table)) if row["noise_multiplier"] is not None]


def table3a(scale: str, *, seeds: int = 3) -> Grid:
    """Bagging rows of Table 3a: the same from a public model, scored on the test rows that stay private; and the whole.

    The quick scale trains from scratch. One network on all records.
    """
    common = _case_2(scale)
    drawn = [{**common, "subsample": k, "seed": seed} for k in CASE_2[scale] for seed in range(seeds)]
    return [*drawn, {**_on_all_records(common, scale), "seed": 0}]


def figure1(scale: str, *, seeds: int = 3) -> Grid:
    """Accuracy against the number of models when N k is fixed at a size of Table 3a; N = 1 is the table's own row."""
    common = _case_2(scale)
    return [
        {**common, "subsample": drawn // n_models, "n_models": n_models, "seed": seed}
        for drawn, counts in MODELS[scale].items()
        for n_models in counts
        for seed in range(seeds)
    ]


def figure2(scale: str, *, seeds: int = 3) -> Grid:
    """Subsamples with and without replacement at the sizes of Table 3a; more seeds where three are asked for."""
    common = _case_2(scale)
    return [
        {**common, "replace": replace, "subsample": k, "seed": seed}
        for k in CASE_2[scale]
        for replace in (True, False)
        for seed in range(seeds if seeds < 3 else max(seeds, MORE_SEEDS.get(k, 0)))
    ]


def causes() -> Grid:
    """Networks of Table 3a that go on from the public model by another optimiser or at another rate than ours.

    The paper names neither. These runs look for what it may have used, on its own test rows; no setting of the chapter
    is chosen by them.
    """
    drawn = _case_2("paper")
    return [
        {**common, "optimizer": optimizer, "learning_rate": rate, "seed": seed}
        for (optimizer, rate), sizes in TUNING.items()
        for k in sizes
        for common in [_on_all_records(drawn, "paper") if k is None else {**drawn, "subsample": k}]
        for seed in range(1 if k is None else 3)
    ]


def case2(scale: str, *, seeds: int = 3) -> Grid:
    """All of bagging's rows of Case II, each once, cheap ones first."""
    rows = [*table3a(scale, seeds=seeds), *figure1(scale, seeds=seeds), *figure2(scale, seeds=seeds)]
    once = {tuple(sorted(row.items(), key=str)): row for row in rows}
    return sorted(once.values(), key=lambda row: (seconds(row), row["n_models"]))


def pate(scale: str, *, seeds: int = 3) -> Grid:
    """PATE rows of Table 3a: one ensemble of teachers, the paper's query counts in both readings, and further noise.

    ``answers`` is None where the aggregator is put ``queries`` queries, and otherwise the answers after which it stops.
    The paper's teachers are networks; the rows with ``l2`` have logistic ones, which train in seconds.
    """
    common = _students(scale)
    counts, n_public = (_query_counts("3a"), 1000) if scale == "paper" else ([30], 100)
    readings: Grid = [{"queries": n_public, "answers": count} for count in counts]
    readings += [{"queries": count, "answers": None} for count in counts]
    teachers: Grid = [{"epochs": None, "l2": LOGISTIC_TEACHERS}, {"epochs": ALL_RECORDS_EPOCHS[scale]}]
    return [
        {**common, **kind, **reading, "seed": seed}
        for kind in (teachers if scale == "paper" else teachers[1:])
        for reading in readings
        for seed in range(seeds)
    ]


def teachers(scale: str) -> Grid:
    """The teachers of all rows of :func:`pate` or of :func:`cifar10_pate`, some in a row."""
    rows = cifar10_pate() if scale == "cifar10" else pate(scale)
    blocks = [block for row in rows for block in blocks_of_teachers(row)]
    return [dict(block) for block in dict.fromkeys(tuple(block.items()) for block in blocks)]


def blocks_of_teachers(row: Mapping[str, Any]) -> Grid:
    """Rows of teachers that a row of PATE is made of: ten networks in each, or all logistic regressions."""
    own = {name: value for name, value in row.items() if name in TEACHER and (name != "l2" or value is not None)}
    n_teachers, seed = row["n_teachers"], row["teachers_seed"]
    size = n_teachers if "l2" in own else TEACHERS_A_ROW
    return [
        {**own, "n_teachers": n_teachers, "first": first, "n_models": min(size, n_teachers - first), "seed": seed}
        for first in range(0, n_teachers, size)
    ]


def teachers_store(dataset: str) -> str:
    """Name of the store of teachers."""
    return "bagging_cifar10_teachers" if dataset == "cifar10" else "bagging_teachers"


def case2_dp_sgd(scale: str) -> Grid:
    """DP-SGD rows of Table 3a, from the public model with a tenth of the rate: the paper's noise, and the least."""
    return _two_noises({**_private(scale), "split": "rest", **_start(scale)}, scale, "3a")


def membership(scale: str) -> Grid:
    """Both attacks at three false-positive rates, on records as they are and on mislabelled ones: the same networks."""
    left_out = ("split", "n_models", "replace")
    common = {name: value for name, value in _case_1(scale).items() if name not in left_out}
    return [
        {**common, **MEMBERSHIP[scale], "seed": 0, "attack": attack, "false_positive_rate": rate, "mislabelled": wrong}
        for attack in ("loss", "likelihood-ratio")
        for wrong in (False, True)
        for rate in (0.001, 0.01, 0.1)
    ]


def equal(scale: str, *, seeds: int = 3) -> Grid:
    """DP-SGD as exposing as bagging of each size of Table 2a: in total variation, and at 0.1% false positives.

    Softmax regression and the network of Table 2a; at the quick scale softmax regression at one size.
    """
    rows = []
    for size in SUBSAMPLES[scale][:1] if scale == "quick" else SUBSAMPLES[scale]:
        pi = bagging(n=RECORDS[scale], subsample=size).advantage
        at_rare = {"epsilon": None, "delta": None, "tpr_at_fpr_1e3": pi}
        for model in EQUAL[scale]:
            for noise in (at_rare, {"epsilon": 0.0, "delta": pi}):
                row = {**_short(scale, model), "noise_multiplier": None, **noise}
                if scale == "paper":
                    row["learning_rate"] = dp_sgd_rate(model, row, n=RECORDS[scale])
                rows += [{**row, "seed": seed} for seed in range(seeds)]
    return sorted(rows, key=lambda row: (seconds(row), row["epsilon"] == 0.0))


def dp_sgd_settings() -> Grid:
    """Candidates for the learning rate of the short DP-SGD runs at four noises, on held-out training rows."""
    given = {"split": "validation", "epsilon": None, "delta": None, "seed": 0}
    return [
        {**_short("paper", model), **given, "noise_multiplier": noise, "learning_rate": rate}
        for noise in NOISES
        for model, rates in RATES.items()
        for rate in rates
    ]


def private_base(scale: str, *, seeds: int = 10) -> Grid:
    """Three base learners of growing epsilon on a subsample, the same without noise, and each on all records."""
    common = PRIVATE_BASE[scale]
    return [
        {**common, "split": "test", "mode": mode, "epsilon": epsilon, "seed": seed}
        for epsilon in (1.0, 3.0, 10.0)
        for mode in ("bagged", "direct", "bare")
        for seed in range(seeds)
        if mode != "bare" or epsilon == 1.0  # without noise there is no epsilon to vary
    ]


def own(dataset: str, n: int, *, subsamples: tuple[int, ...] = (), seeds: int = 5) -> Grid:
    """Three base learners on subsamples of a reader's file of n training records, as in :func:`private_base`.

    ``subsamples``: default a twentieth, a fifth and a half of the records.
    """
    common = {"dataset": dataset, "split": "test", "delta": 1e-5, "l2": 0.01}
    return [
        {**common, "subsample": size, "mode": mode, "epsilon": epsilon, "seed": seed}
        for size in subsamples or (n // 20, n // 5, n // 2)
        for epsilon in (1.0, 10.0)
        for mode in ("bagged", "direct", "bare")
        for seed in range(seeds)
        if mode != "bare" or epsilon == 1.0  # without noise there is no epsilon to vary
    ]


def private_base_settings() -> Grid:
    """Candidates for the penalty, for the private base learner of the middle epsilon, on held-out rows."""
    common = {**PRIVATE_BASE["paper"], "split": "validation", "mode": "bagged", "epsilon": 3.0}
    return [{**common, "l2": l2, "seed": seed} for l2 in (0.1, 0.03, 0.01, 0.003, 0.001) for seed in range(5)]


def cifar10(public: str = IMAGENET) -> Grid:
    """Bagging rows of Tables 2b and 3b, cheap ones first: three seeds, and one where all records are used.

    ``public``: the model that Case II starts from, ``"imagenet"`` or ``"cifar100_subset"``.
    """
    rows = []
    for table, common in (("2b", _case_1("cifar10")), ("3b", _case_2("cifar10", public))):
        drawn = [(int(size), seed) for size in _published(table, "Bagging")["k"] for seed in range(3)]
        rows += [{**common, "subsample": k, "seed": seed} for k, seed in [*drawn, (None, 0)]]
    return sorted(rows, key=seconds)


def cifar10_dp_sgd(public: str = IMAGENET) -> Grid:
    """DP-SGD rows of Tables 2b and 3b: the paper's noise, and the least noise for the same budget; one seed."""
    tuned = {**_private("cifar10"), "split": "rest", **_start("cifar10", public)}
    return [*_two_noises(_private("cifar10"), "cifar10", "2b"), *_two_noises(tuned, "cifar10", "3b")]


def cifar10_pate(public: str = IMAGENET) -> Grid:
    """PATE rows of Table 3b: 250 teachers for 1,000 epochs, stopped after the paper's numbers of answers."""
    common = {**_students("cifar10", public), "epochs": 1000, "queries": 1000}
    return [{**common, "answers": count, "seed": seed} for count in _query_counts("3b") for seed in range(3)]


def cifar10_settings() -> Grid:
    """Candidates for optimiser and rate of bagging, scored on held-out training rows; cheap ones first."""
    rows = [
        {**_case_1(scale), "split": "validation", "subsample": size, "epochs": epochs, "seed": seed}
        | {"optimizer": optimizer, "learning_rate": rate}
        for scale, size, epochs, seeds, candidates in CIFAR10_CANDIDATES
        for optimizer, rate in candidates
        for seed in range(seeds)
    ]
    return sorted(rows, key=seconds)


def reduced() -> Grid:
    """Bagging at the reduced scale, from scratch and from CIFAR-100, three seeds."""
    return [
        {**start, "subsample": size, "seed": seed}
        for size in REDUCED_SIZES
        for seed in range(3)
        for start in (_case_1("reduced"), _case_2("reduced", "cifar100_subset"))
    ]


def reduced_dp_sgd() -> Grid:
    """DP-SGD at the reduced scale, from scratch and from CIFAR-100, three seeds: the paper's noise, and the least."""
    tuned = {"split": "rest", **_start("reduced", "cifar100_subset")}
    return [
        {**row, **start, "learning_rate": decimal(factor * rate), "seed": seed}
        for start, factor in (({}, 1.0), (tuned, FINE_TUNING))
        for row, rate in zip(noises(_private("reduced"), [REDUCED_BUDGET]), REDUCED_RATES.values(), strict=True)
        for seed in range(3)
    ]


def reduced_dp_sgd_settings() -> Grid:
    """Candidates for the rate of DP-SGD at the reduced scale, from scratch, on held-out training rows."""
    rows = noises({**_private("reduced"), "split": "validation"}, [REDUCED_BUDGET])
    return [{**row, "learning_rate": rate} for row in rows for rate in RATES["network"]]


def budgets(table: str) -> list[tuple[float, float, float]]:
    """(epsilon, delta, sigma) of DP-SGD in a published table, in its order."""
    return list(_published(table, "DPSGD")[["epsilon", "delta", "sigma"]].itertuples(index=False, name=None))


def noises(common: Mapping[str, Any], budgets: list[tuple[float, float, float]]) -> Grid:
    """DP-SGD at each (epsilon, delta, sigma), the last one first: with sigma, and with the least noise."""
    return [
        {**common, "noise_multiplier": noise, "epsilon": epsilon, "delta": delta}
        for *budget, sigma in reversed(budgets)
        for noise, epsilon, delta in ((sigma, None, None), (None, *budget))
    ]


def _two_noises(common: Mapping[str, Any], scale: str, table: str) -> Grid:
    """The paper's noise and the least noise at each budget of a table, each with the rate for its noise."""
    if scale == "quick":
        return noises(common, [QUICK_BUDGET])
    factor = FINE_TUNING if "public" in common else 1.0
    return with_rates(noises(common, budgets(table)), n=RECORDS[scale], factor=factor)


def _query_counts(table: str) -> list[int]:
    return [int(count) for count in _published(table, "PATE")["n_queries"]]


def _published(table: str, method: str) -> pd.DataFrame:
    return paper_table(f"bagging_table{table[0]}").query("table == @table and method == @method")


def _case_1(scale: str) -> dict[str, Any]:
    return {**_network(scale), "n_models": 1, "replace": True, "epochs": EPOCHS[scale], **OPTIMIZERS[scale]}


def _on_all_records(common: Mapping[str, Any], scale: str) -> dict[str, Any]:
    return {**common, "subsample": None, "epochs": ALL_RECORDS_EPOCHS[scale]}


def _case_2(scale: str, public: str | None = None) -> dict[str, Any]:
    """The same from the public model, at a tenth of the rate, on the test rows that stay private."""
    start = _start(scale, public)
    factor = {"learning_rate": FINE_TUNING * OPTIMIZERS[scale]["learning_rate"]} if start else {}
    return {**_case_1(scale), "split": "rest", **start, **factor}


def _start(scale: str, public: str | None = None) -> dict[str, Any]:
    """The public model that training starts from; an image set trains it for ten epochs at the rate from scratch."""
    known = PUBLIC.get("cifar10" if DATASETS[scale] == "cifar10" else scale, ())
    if not known:
        return {}
    public = one_of("public", public or known[0], known)
    if public == IMAGENET:
        return {"public": public}
    return {"public": public, "public_epochs": 10, "public_rate": OPTIMIZERS[scale]["learning_rate"]}


def _students(scale: str, public: str | None = None) -> dict[str, Any]:
    """PATE without its teachers and queries: the public rows are test rows, so that there is no other split."""
    left_out = ("split", "n_models", "replace", "epochs")
    common = {name: value for name, value in _case_2(scale, public).items() if name not in left_out}
    own = "quick" if scale == "quick" else "paper"
    return {**common, **PATE[own], "student_epochs": STUDENT_EPOCHS[own], "teachers_seed": 0}


def _short(scale: str, model: str) -> dict[str, Any]:
    """Short runs of DP-SGD, without their noise and seed."""
    return {**_network(scale), "clipping_norm": 1.0, **EQUAL[scale][model]}


def _private(scale: str) -> dict[str, Any]:
    """DP-SGD from scratch, without its noise."""
    return {**_network(scale), **DP_SGD[scale], "seed": 0}


def _network(scale: str) -> dict[str, Any]:
    dataset = DATASETS[one_of("scale", scale, tuple(DATASETS))]
    return {"dataset": dataset, "split": "test", **ARCHITECTURES[scale]}
