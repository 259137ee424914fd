"""Experiments of the bagging chapter: accuracy of networks trained on random subsamples (Liu, Jia and Gong 2021)."""

from __future__ import annotations

from typing import Any

from dpnotes.lab import experiment
from dpnotes.lab._experiment import Experiment
from dpnotes.lab.bagging import attack as _bagging_attack
from dpnotes.lab.bagging import cifar10 as _bagging_cifar10
from dpnotes.lab.bagging import grids
from dpnotes.lab.bagging import pate as _bagging_pate
from dpnotes.lab.bagging import private as _bagging_private
from dpnotes.lab.bagging import training as _bagging_training
from dpnotes.lab.bagging.case2 import fixed_draws, replacement, table3a, table3a_view
from dpnotes.lab.bagging.cifar10 import (
    cifar10_dp_sgd_grid,
    cifar10_grid,
    cifar10_pate_grid,
    cifar10_settings_grid,
    reduced_dp_sgd_grid,
    reduced_dp_sgd_settings_grid,
    reduced_grid,
)
from dpnotes.lab.bagging.cifar10_tables import (
    candidates,
    candidates_view,
    carried_rates,
    cifar10_table,
    cifar10_view,
    reduced_table,
    reduced_view,
)
from dpnotes.lab.bagging.figures import exposures, models_figure, plane
from dpnotes.lab.bagging.grids import (
    RECORDS,
    case2_dp_sgd_grid,
    case2_grid,
    dp_sgd_grid,
    dp_sgd_settings_grid,
    equal_grid,
    figure1_grid,
    figure2_grid,
    membership_grid,
    one_rate_grid,
    pate_grid,
    private_base_grid,
    private_base_settings_grid,
    settings_grid,
    table2a_grid,
    table3a_grid,
)
from dpnotes.lab.bagging.networks import DP_SGD, NETWORKS
from dpnotes.lab.bagging.orderings import orderings
from dpnotes.lab.bagging.rates import rate_candidates, rate_candidates_view, two_rates, two_rates_view
from dpnotes.lab.bagging.tables import (
    baselines,
    baselines_view,
    many_models,
    memorising_attack,
    settings,
    table2a,
    table2a_view,
)
from dpnotes.lab.bagging.views import (
    attacks,
    attacks_view,
    equal_exposure,
    equal_exposure_view,
    private_bases,
    private_bases_view,
)


@experiment("bagging.ensemble")
def ensemble(
    *,
    dataset: str,
    part: str,
    subsample: int | None,
    n_models: int,
    replace: bool,
    width: int,
    kernel_size: int,
    padding: int,
    epochs: int,
    batch_size: int,
    optimizer: str,
    learning_rate: float,
    seed: int,
    public: str | None = None,
    public_epochs: int = 0,
    public_rate: float = 0.0,
    architecture: str = "convolutional",
    device: str = "auto",
) -> dict[str, Any]:
    """Train networks on random subsamples (or one on all rows) and score their majority vote.

    Parameters
    ----------
    dataset : str
        An image set of :mod:`dpnotes.data`.
    part : {"test", "validation", "rest"}
        ``"validation"``: train on all but the last 10,000 training rows and score on those. ``"rest"``: score on the
        test rows that are left when Case II has made the first ones public.
    subsample : int or None
        Records drawn for each model; None: one network on all records, without any guarantee.
    n_models, replace
        See :class:`dpnotes.methods.Bagging`.
    width : int
        Channels of the first convolution.
    kernel_size, padding, epochs, batch_size, optimizer, learning_rate
        See :class:`dpnotes.learners.NetworkClassifier`.
    seed : int
    public : str or None
        Image set on which all but the last layer is trained first; ``"imagenet"``: torchvision's weights of VGG16,
        without normalisation, for images standardised by ImageNet's means and deviations.
    public_epochs : int
    public_rate : float
        Learning rate of that training.
    architecture : {"convolutional", "vgg5", "vgg16"}
        Two convolutions, the second with twice the channels; one for each of the five stages of VGG16, with 1, 2, 4, 8
        and 8 times ``width`` channels; or VGG16 itself with group normalisation (width 64, kernel size 3, padding 1).
    device : str

    Returns
    -------
    dict
        accuracy; n (training records); epsilon, delta, adjacency, status of the release; data; device.
    """
    return _bagging_training.ensemble(**locals())


@experiment("bagging.dp_sgd")
def dp_sgd(
    *,
    dataset: str,
    part: str,
    noise_multiplier: float | None,
    epsilon: float | None,
    delta: float | None,
    width: int | None,
    kernel_size: int,
    padding: int,
    epochs: int,
    batch_size: int,
    clipping_norm: float,
    learning_rate: float,
    seed: int,
    public: str | None = None,
    public_epochs: int = 0,
    public_rate: float = 0.0,
    found: float | None = None,
    architecture: str = "convolutional",
    device: str = "auto",
) -> dict[str, Any]:
    """Train the same network by DP-SGD, with given noise or with the least that tight accounting allows.

    Parameters
    ----------
    dataset, part, kernel_size, padding, seed, public, public_epochs, public_rate, architecture, device
        As :func:`ensemble`.
    noise_multiplier : float or None
        None: calibrated to ``epsilon`` and ``delta``, or to ``found``.
    epsilon, delta : float or None
    width : int or None
        As :func:`ensemble`; None: softmax regression in the place of the network.
    found : float or None
        Largest share of the members that a test with 0.1% false positives may find.
    epochs : int
        Expected passes through the records: there are ``epochs * n // batch_size`` steps.
    batch_size : int
        Expected, by Poisson sampling.
    clipping_norm, learning_rate
        See :class:`dpnotes.methods.DPSGD`.

    Returns
    -------
    dict
        accuracy; n (training records); sigma (the noise multiplier used); advantage (the total variation that the
        release of all steps has at most); adjacency, status; data; device.
    """
    return _bagging_training.dp_sgd(**locals())


@experiment("bagging.pate")
def pate(
    *,
    dataset: str,
    n_teachers: int,
    threshold: float,
    sigma_threshold: float,
    sigma_answer: float,
    queries: int,
    answers: int | None,
    width: int,
    kernel_size: int,
    padding: int,
    epochs: int | None,
    student_epochs: int,
    batch_size: int,
    optimizer: str,
    learning_rate: float,
    teachers_seed: int,
    seed: int,
    public: str | None = None,
    public_epochs: int = 0,
    public_rate: float = 0.0,
    l2: float | None = None,
    architecture: str = "convolutional",
    device: str = "auto",
) -> dict[str, Any]:
    """Let an ensemble of networks label the public rows by Confident-GNMax, and score the student.

    Rows that differ in ``queries``, ``answers``, ``student_epochs`` and ``seed`` share their teachers in a process.

    Parameters
    ----------
    dataset, width, kernel_size, padding, batch_size, optimizer, learning_rate, architecture, device
        As :func:`ensemble`; teachers and student have them in common.
    public, public_epochs, public_rate
        As :func:`ensemble`; teachers and student start alike.
    n_teachers, threshold, sigma_threshold, sigma_answer
        See :class:`dpnotes.methods.PATE`.
    queries : int
        Public rows put to the aggregator, from the first on.
    answers : int or None
        After so many it stops; None: never.
    epochs : int or None
        Of the teachers; None where they are logistic regressions.
    student_epochs : int
    teachers_seed : int
        Of shards and teachers.
    seed : int
        Of the noise and the student.
    l2 : float or None
        Penalty of teachers that are multinomial logistic regressions, which start from nothing.

    Returns
    -------
    dict
        accuracy (of the student); answered (labels released); asked (queries up to the last comparison); right (share
        of the released labels that are true); agreement (mean share of teachers in the plurality, all public rows);
        plurality (its accuracy there); n (training records); advantage (of the worst case over data sets); adjacency,
        status; data; device.
    """
    return _bagging_pate.pate(**locals())


@experiment("bagging.membership")
def membership(
    *,
    dataset: str,
    attack: str,
    false_positive_rate: float,
    mislabelled: bool,
    subsample: int,
    n_networks: int,
    flipped: float,
    others: int,
    width: int,
    kernel_size: int,
    padding: int,
    epochs: int,
    batch_size: int,
    optimizer: str,
    learning_rate: float,
    seed: int,
    device: str = "auto",
) -> dict[str, Any]:
    """Attack bagged networks (N = 1 each): call the records members of which a network is too sure.

    The attacker has half of the networks for reference and knows who was drawn for them; the false-positive rate is set
    there, and the other half is attacked. Rows that differ in the first three parameters share their networks.

    Parameters
    ----------
    attack : {"loss", "likelihood-ratio"}
        One threshold for the confidence in a record's label; or one for its distance, in standard deviations, from the
        confidence of reference networks that did not draw the record.
    false_positive_rate : float
        Of all records that a network did not draw.
    mislabelled : bool
        Count the records whose label was made wrong before training, or the others.
    subsample : int
        Records drawn for each network, with replacement.
    n_networks : int
        Even, >= 6.
    flipped : float
        Share of the records that get a wrong label.
    others : int
        Records attacked besides those that an attacked network drew.
    dataset, width, kernel_size, padding, epochs, batch_size, optimizer, learning_rate, seed, device
        As :func:`ensemble`.

    Returns
    -------
    dict
        hits of members (attacked networks and records together); alarms of nonmembers; deviation (of the true-positive
        rate, between networks); n (training records); data; device.

    Source
    ------
    Yeom et al. (2018) for the loss; Carlini et al. (2022) for the likelihood ratio, in its variant without networks
    that drew the record.
    """
    return _bagging_attack.membership(**locals())


@experiment("bagging.private_base")
def private_base(
    *,
    dataset: str,
    part: str,
    way: str,
    subsample: int,
    epsilon: float,
    delta: float,
    l2: float,
    seed: int,
    device: str = "auto",
) -> dict[str, Any]:
    """Logistic regression in the unit ball: on a subsample, bare or private, or private on all records.

    Parameters
    ----------
    dataset : {"mnist", "digits"}
        MNIST's digits 3 and 5, randomly projected to 50 features of norm 1; or the digits of scikit-learn.
    part : {"test", "validation"}
        What is scored.
    way : {"bare", "bagged", "direct"}
        Without noise on a subsample; by :class:`dpnotes.methods.ModelSensitivity` on a subsample; or by the same on all
        records, with the guarantee that amplification gives the subsample.
    subsample : int
        Records drawn without replacement.
    epsilon, delta : float
        Guarantee of the base learner, for records of the subsample.
    l2 : float
        See :class:`dpnotes.methods.ModelSensitivity`.
    seed : int
    device : str

    Returns
    -------
    dict
        accuracy; n (training records); advantage and found (largest true-positive rate at 0.1% false positives) of the
        release; level (its epsilon at ``delta * subsample / n``); adjacency, status; data; device.
    """
    return _bagging_private.private_base(**locals())


EXPERIMENTS = [
    Experiment(
        "bagging_table2a",
        ensemble,
        {"paper": lambda: table2a_grid("paper"), "quick": lambda: table2a_grid("quick", seeds=3)},
        tolerance={"accuracy": 0.01, "delta": 1e-12},
        cost=grids.ensemble_seconds,
    ),
    Experiment(
        "bagging_settings",
        ensemble,
        {"paper": settings_grid},
        tolerance={"accuracy": 0.01, "delta": 1e-12},
        cost=grids.ensemble_seconds,
    ),
    Experiment(
        "bagging_dp_sgd",
        dp_sgd,
        {"paper": lambda: [*dp_sgd_grid("paper"), *one_rate_grid()], "quick": lambda: dp_sgd_grid("quick")},
        tolerance={"accuracy": 0.03, "sigma": 1e-3, "advantage": 1e-4},
        cost=grids.dp_sgd_seconds,
    ),
    Experiment(
        "bagging_case2",
        ensemble,
        {"paper": lambda: case2_grid("paper"), "quick": lambda: case2_grid("quick")},
        tolerance={"accuracy": 0.02, "delta": 1e-12},
        cost=grids.ensemble_seconds,
    ),
    Experiment(
        "bagging_pate",
        pate,
        {"paper": lambda: pate_grid("paper"), "quick": lambda: pate_grid("quick")},
        tolerance={"accuracy": 0.05, "answered": 5, "right": 0.05, "agreement": 0.02, "plurality": 0.02, "asked": 20},
        cost=grids.pate_seconds,
    ),
    Experiment(
        "bagging_membership",
        membership,
        {"paper": lambda: membership_grid("paper"), "quick": lambda: membership_grid("quick")},
        tolerance={"hits": 200, "alarms": 500, "deviation": 0.1},
        cost=grids.membership_seconds,
    ),
    Experiment(
        "bagging_equal",
        dp_sgd,
        {"paper": lambda: equal_grid("paper"), "quick": lambda: equal_grid("quick")},
        tolerance={"accuracy": 0.02, "sigma": 2e-3, "advantage": 1e-3},
        cost=grids.dp_sgd_seconds,
    ),
    Experiment(
        "bagging_dp_sgd_settings",
        dp_sgd,
        {"paper": dp_sgd_settings_grid},
        tolerance={"accuracy": 0.02, "sigma": 2e-3, "advantage": 1e-3},
        cost=grids.dp_sgd_seconds,
    ),
    Experiment(
        "bagging_private_base",
        private_base,
        {"paper": lambda: private_base_grid("paper"), "quick": lambda: private_base_grid("quick")},
        tolerance={"accuracy": 0.02, "advantage": 1e-9, "found": 1e-9, "level": 1e-6},
        cost=lambda parameters: 0.5,
    ),
    Experiment(
        "bagging_private_base_settings",
        private_base,
        {"paper": private_base_settings_grid},
        tolerance={"accuracy": 0.02, "advantage": 1e-9, "found": 1e-9, "level": 1e-6},
        cost=lambda parameters: 0.5,
    ),
    Experiment(
        "bagging_case2_dp_sgd",
        dp_sgd,
        {"paper": lambda: case2_dp_sgd_grid("paper"), "quick": lambda: case2_dp_sgd_grid("quick")},
        tolerance={"accuracy": 0.03, "sigma": 1e-3, "advantage": 1e-4},
        cost=grids.dp_sgd_seconds,
    ),
    *_bagging_cifar10.experiments(ensemble, dp_sgd, pate),
]

__all__ = [
    "DP_SGD",
    "EXPERIMENTS",
    "NETWORKS",
    "RECORDS",
    "attacks",
    "attacks_view",
    "baselines",
    "baselines_view",
    "candidates",
    "candidates_view",
    "carried_rates",
    "case2_dp_sgd_grid",
    "case2_grid",
    "cifar10_dp_sgd_grid",
    "cifar10_grid",
    "cifar10_pate_grid",
    "cifar10_settings_grid",
    "cifar10_table",
    "cifar10_view",
    "dp_sgd",
    "dp_sgd_grid",
    "dp_sgd_settings_grid",
    "ensemble",
    "equal_exposure",
    "equal_exposure_view",
    "equal_grid",
    "exposures",
    "figure1_grid",
    "figure2_grid",
    "fixed_draws",
    "many_models",
    "membership",
    "membership_grid",
    "memorising_attack",
    "models_figure",
    "one_rate_grid",
    "orderings",
    "pate",
    "pate_grid",
    "plane",
    "private_base",
    "private_base_grid",
    "private_base_settings_grid",
    "private_bases",
    "private_bases_view",
    "rate_candidates",
    "rate_candidates_view",
    "reduced_dp_sgd_grid",
    "reduced_dp_sgd_settings_grid",
    "reduced_grid",
    "reduced_table",
    "reduced_view",
    "replacement",
    "settings",
    "settings_grid",
    "table2a",
    "table2a_grid",
    "table2a_view",
    "table3a",
    "table3a_grid",
    "table3a_view",
    "two_rates",
    "two_rates_view",
]
