"""Experiments of the private-prediction chapter: the trade-offs of five methods (van
der Maaten and Hannun 2020).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dpnotes._validation import one_of
from dpnotes.lab import experiment
from dpnotes.lab._experiment import Experiment, Grid, Tolerance
from dpnotes.lab._shared import as_codes, as_text, lacking, origin, shared_rows
from dpnotes.lab.private_prediction import grids

if TYPE_CHECKING:
    from dpnotes.lab.private_prediction.runs import Task

VOTE_NETWORKS = "private_prediction_vote_networks"
# over the test rows, when answers are timed
TIMED_PASSES = 10
SECONDS = {
    "loss_perturbation": (0.6, 20.0),
    "dp_sgd": (0.4, 15.0),
    "subsample_aggregate": (0.2, 0.0),
}


@experiment("private_prediction.trade_off")
def trade_off(
    *,
    method: str,
    dataset: str,
    epsilon: float,
    delta: float,
    answers: int | None,
    analysis: str,
    n: int | None,
    d: int | None,
    n_classes: int | None,
    l2: float | None,
    n_models: int | None,
    repeats: int,
    seed: int,
    device: str = "auto",
) -> dict[str, Any]:
    """Test accuracy of a linear model that one private method releases or answers with,
    on one thread of a CPU.

    Parameters
    ----------
    method : {"model_sensitivity", "loss_perturbation", "dp_sgd",
    "prediction_sensitivity", "subsample_aggregate"}
    dataset : {"mnist", "digits"}
    epsilon, delta : float
    answers : int or None
        What the guarantee of the last two methods pays for; all test rows are scored,
        as in the paper. None for the others.
    analysis : {"tight", "published", "in_code"}
        ``"tight"``: sound and the least noise that we know, one record more or less for
        all methods. ``"published"``: the paper's noise, its proofs' own adjacencies.
        ``"in_code"``: the same noise for models with a bias, as in the authors' code;
        for delta = 0, and not for votes, whose models always have one.
    n, d, n_classes : int or None
        Training rows, principal axes and classes; None: all.
    l2 : float or None
        None: chosen on the last tenth of the training rows, as are the clipping norm
        and the step length of DP-SGD: the best of all candidates, or, where each takes
        a fit, the one that a climb from the middle of them ends at.
    n_models : int or None
        Of subsample-and-aggregate.
    repeats : int
        Releases; of subsample-and-aggregate, ten for each partition of the records.
    seed : int
    device : str

    Returns
    -------
    dict
        accuracy and accuracy_std (mean and standard deviation over repeats); chosen_l2,
        clipping_norm, step_length (what was chosen); noise (see :class:`Outcome`);
        adjacency and status of the guarantee; data; device.
    """
    from dpnotes.lab.private_prediction import runs
    from dpnotes.learners import one_thread

    # before data are read
    one_of("method", method, grids.METHODS)
    own = runs.task(dataset, n=n, d=d, n_classes=n_classes)
    release = runs.Release(
        epsilon,
        delta,
        analysis=analysis,
        answers=answers,
        n_models=n_models,
        repeats=repeats,
        seed=seed,
        device=device,
    )
    if analysis == "in_code":
        if delta or method == "subsample_aggregate":
            raise ValueError("analysis: in_code is for delta = 0, and not for votes")
        release = release.biased(method)
    # small products: more threads cost more than they give
    with one_thread():
        # on held-out training rows, never on those that are scored
        chosen = runs.choose(method, own, release) if l2 is None else {"l2": l2}
        outcome = runs.METHODS[method](own, release, **chosen)
    told = {
        "chosen_l2": chosen.get("l2"),
        "adjacency": outcome.adjacency,
        # the bias is left out of the sensitivity: no proof, and worst cases exceed it
        "status": "refuted" if analysis == "in_code" else outcome.status,
    }
    told |= {name: chosen.get(name) for name in ("clipping_norm", "step_length")}
    return {
        **_mean_and_std(outcome.accuracies),
        "noise": float(outcome.noise),
        **told,
        **origin(own, device),
    }


def _mean_and_std(accuracies: np.ndarray[Any, Any]) -> dict[str, float | None]:
    # of a sample; a single network has none
    std = float(accuracies.std(ddof=1)) if len(accuracies) > 1 else None
    return {"accuracy": float(accuracies.mean()), "accuracy_std": std}


@experiment("private_prediction.training_time")
def training_time(
    *,
    method: str,
    varied: str,
    n: int,
    d: int,
    n_classes: int,
    answers: int,
    n_models: int,
    l2: float,
    seed: int,
) -> dict[str, Any]:
    """Processor time that a method takes on MNIST, on the CPU, to train, and to answer
    a thousand queries.

    Parameters
    ----------
    method : {"loss_perturbation", "subsample_aggregate"}
        Of this library, or followed by ``"_in_code"``: as in the authors' code, see
        :mod:`~dpnotes.lab.private_prediction.authors_code`.
    varied : str
        The parameter that the row is one of a series over.
    n, d, n_classes, answers, n_models, l2, seed
        As :func:`trade_off`; delta is 0 and epsilon 1.

    Returns
    -------
    dict
        train_seconds, predict_seconds, of this thread; data; device.
    """
    from dpnotes.lab.private_prediction.runs import task

    own = task("mnist", n=n, d=d, n_classes=n_classes)
    timed = _time_in_code if method.endswith("_in_code") else _time_in_library
    trained, asked, queries = timed(
        method, own, answers=answers, n_models=n_models, l2=l2, seed=seed
    )
    seconds = {"train_seconds": trained, "predict_seconds": asked * 1000 / queries}
    return {**seconds, "data": own.digest, "device": "cpu"}


def _time_in_library(
    method: str, own: Task, *, answers: int, n_models: int, l2: float, seed: int
) -> tuple[float, float, int]:
    """Seconds of training and of answering, and how many queries were answered."""
    from dpnotes.methods import LossPerturbation, SubsampleAggregate

    common: dict[str, Any] = {"device": "cpu", "noise_seed": seed}
    # one of the two whose time the table is about
    model: Any = LossPerturbation(1.0, l2=l2, intercept=False, **common)
    batch = 1000
    if method == "subsample_aggregate":
        model = SubsampleAggregate(
            1.0, answers=answers, n_models=n_models, adjacency="add-remove", **common
        )
        # it answers no more than its budget
        batch = min(batch, answers)
    # again from the first where there are fewer
    queries = own.X_score[np.arange(batch) % len(own.X_score)]
    # of this thread: other processes do not count
    start = time.thread_time()
    model.fit(own.X, own.y)
    trained = time.thread_time()
    model.predict(queries)
    return trained - start, time.thread_time() - trained, batch


def _time_in_code(
    method: str, own: Task, *, answers: int, n_models: int, l2: float, seed: int
) -> tuple[float, float, int]:
    """The same of the authors' steps, which label all test rows whatever the budget."""
    import torch

    from dpnotes.lab.private_prediction import authors_code
    from dpnotes.learners import one_thread

    X, y, X_score = map(torch.as_tensor, (own.X, own.y, own.X_score))
    train: Any = {
        "loss_perturbation_in_code": partial(
            authors_code.loss_perturbation, epsilon=1.0, l2=l2
        ),
        "subsample_aggregate_in_code": partial(
            authors_code.votes, n_models=n_models, beta=1.0 / answers
        ),
    }[method]
    torch.manual_seed(seed)
    with one_thread():
        start = time.thread_time()
        answer = train(X, y, own.n_classes)
        trained = time.thread_time()
        # a single pass over few rows is too short to be timed
        with torch.no_grad():
            for _ in range(TIMED_PASSES):
                answer(X_score)
        answered = time.thread_time()
    return trained - start, answered - trained, TIMED_PASSES * len(X_score)


@experiment("private_prediction.vote_network")
def vote_network(
    *,
    dataset: str,
    n_models: int,
    model: int,
    epochs: int,
    seed: int,
    device: str = "auto",
) -> dict[str, Any]:
    """One of the networks of Figure 7's votes, trained on its shard of the records, and
    its labels of the test rows.

    Parameters
    ----------
    dataset : {"cifar10"}
    n_models : int
        Shards.
    model : int
        Which of them, from 0 on.
    epochs : int
        Of its training.
    seed : int
    device : str

    Returns
    -------
    dict
        accuracy; votes (one letter for each test row, see
        :func:`dpnotes.lab._shared.as_text`); data; device.
    """
    from dpnotes import data
    from dpnotes.lab.private_prediction import networks

    arrays = data.load(dataset)
    found = networks.vote_of(
        arrays, model, n_models, epochs=epochs, seed=seed, device=device
    )
    accuracy = float(np.mean(found == arrays.y_test))
    return {"accuracy": accuracy, "votes": as_text(found), **origin(arrays, device)}


@experiment("private_prediction.network")
def network(
    *,
    method: str,
    dataset: str,
    epsilon: Any,
    answers: Any,
    clipping_norm: float | None = None,
    epochs: int,
    seed: int,
    device: str = "auto",
) -> dict[str, Any]:
    """Test accuracy of ResNet-20 with group normalisation on CIFAR-10, delta = 1e-5:
    Figure 7.

    Parameters
    ----------
    method : {"non_private", "dp_sgd", "subsample_aggregate"}
        The paper's settings, but for the epochs: batches of 600, rate 0.1, divided by
        10 three times, flips and crops; 16 models for the votes, which are rows of
        :func:`vote_network`.
    dataset : {"cifar10"}
    epsilon : float or None
    answers : int or None
        Of subsample-and-aggregate.
    clipping_norm : float or None
        Of DP-SGD; the learning rate is 0.1 / clipping_norm.
    epochs : int
        Of the training of a network. The paper's are 100 for DP-SGD, 500 for the others.
    seed : int
    device : str

    Returns
    -------
    dict
        accuracy and accuracy_std (over 100 votes on one set of models; None for one
        network); noise; data; device.
    """
    from dpnotes import accounting, data
    from dpnotes.lab.private_prediction import networks
    from dpnotes.mechanisms import soft_vote, vote_counts

    one_of("method", method, networks.METHODS)
    arrays = data.load(dataset)
    noise: float | None
    if method == "subsample_aggregate":
        rows = shared_rows(
            VOTE_NETWORKS,
            vote_network,
            grids.vote_networks(dataset, seed, epochs),
            {"device": device},
        )
        votes = np.stack([as_codes(text) for text in rows["votes"]])
        counts = vote_counts(votes, arrays.n_classes)
        # sound, and the least noise that we know
        beta = accounting.soft_vote_beta(epsilon, networks.DELTA, answers=answers)
        noise = 1 / float(beta)
        # a hundred votes on one set of models
        labels = soft_vote(counts, beta=beta, seed=seed, n_repeats=networks.REPEATS)
    else:
        model: Any = networks.resnet(arrays, epochs=epochs, seed=seed, device=device)
        if method == "dp_sgd":
            budget = {"epsilon": epsilon, "delta": networks.DELTA}
            model = networks.by_dp_sgd(
                model, arrays, clipping_norm=clipping_norm, **budget
            )
        model.fit(arrays.X_train, arrays.y_train)
        labels = model.predict(arrays.X_test)[None]
        noise = getattr(model, "noise_multiplier_", None)
    return {
        **_mean_and_std((labels == arrays.y_test).mean(axis=1)),
        "noise": noise,
        **origin(arrays, device),
    }


@experiment("private_prediction.network_setting")
def network_setting(
    *,
    dataset: str,
    clipping_norm: float,
    epsilon: float,
    epochs: int,
    whole_epochs: int,
    seed: int,
    device: str = "auto",
) -> dict[str, Any]:
    """Accuracy of Figure 7's DP-SGD on the last 10,000 training rows, after a few
    epochs on the others.

    Parameters
    ----------
    dataset : {"cifar10"}
    clipping_norm : float
        The candidate; the learning rate is 0.1 / clipping_norm.
    epsilon : float
        The noise is that of a whole training with this epsilon, at delta = 1e-5.
    whole_epochs : int
        Of the whole training.
    epochs : int
        Of this training; its rate is divided by 10 three times.
    seed : int
    device : str

    Returns
    -------
    dict
        accuracy; noise (the multiplier); data; device.
    """
    from dpnotes import accounting, data
    from dpnotes.lab.private_prediction import networks

    arrays = networks.held_out(data.load(dataset))
    # the noise is that of the whole training, so that the choice is made at that noise
    noise = accounting.dp_sgd_noise_multiplier(
        epsilon,
        networks.DELTA,
        sample_rate=networks.BATCH / len(arrays.X_train),
        steps=whole_epochs * (len(arrays.X_train) // networks.BATCH),
        accountant="pld",
    )
    model = networks.by_dp_sgd(
        networks.resnet(arrays, epochs=epochs, seed=seed, device=device),
        arrays,
        noise_multiplier=float(noise),
        clipping_norm=clipping_norm,
    ).fit(arrays.X_train, arrays.y_train)
    accuracy = float(model.score(arrays.X_test, arrays.y_test))
    return {"accuracy": accuracy, "noise": float(noise), **origin(arrays, device)}


# of a core, for an epoch on a sixteenth of the records, and an epoch of DP-SGD
# hours of 500 epochs, measured
VOTE_EPOCH = 2.6 * 3600 / 500
DP_SGD_EPOCH = 7.8 * 3600 / 100
# of an H100, measured on both in images a second
GPU_SPEEDUP = 150.0
DP_SGD_SPEEDUP = 45.0


def _seconds(parameters: Mapping[str, Any]) -> float:
    """Measured on one core: seconds a release and seconds of choosing, at the size
    of MNIST.
    """
    # time grows with records and with features
    size = (parameters["n"] or 60_000) / 60_000 * (parameters["d"] or 784) / 784
    each, fixed = SECONDS.get(parameters["method"], (0.0, 8.0))
    return (
        (each * parameters["repeats"] + fixed) * size
        if parameters["dataset"] == "mnist"
        else 1.0
    )


def _network_seconds(parameters: Mapping[str, Any]) -> float:
    """Of one core, by images a second that were measured; votes take seconds once
    their networks are there.
    """
    epochs = float(parameters["epochs"])
    if parameters["method"] == "dp_sgd":
        return DP_SGD_EPOCH * epochs
    if parameters["method"] == "non_private":
        return VOTE_EPOCH * epochs * grids.VOTERS
    asked = (parameters["dataset"], parameters["seed"], parameters["epochs"])
    networks = grids.vote_networks(*asked)
    # the networks are rows of their own, which may be there
    missing = lacking(VOTE_NETWORKS, vote_network, networks)
    # the votes themselves take half a minute
    return 30.0 + VOTE_EPOCH * epochs * len(missing)


def _setting_seconds(parameters: Mapping[str, Any]) -> float:
    # on four fifths of the rows
    return DP_SGD_EPOCH * float(parameters["epochs"]) * 0.8


# linear models: little more than rounding
_TRADED: Tolerance = {"accuracy": 0.01, "accuracy_std": 5e-4, "noise": 1e-6}
# of another machine
_TIMED: Tolerance = {"train_seconds": math.inf, "predict_seconds": math.inf}
# networks differ by a few hundred test images between machines
_TRAINED: Tolerance = {"accuracy": 0.02}
_NOISY: Tolerance = {"accuracy": 0.02, "noise": 1e-3}
_VOTED: Tolerance = {"accuracy": 0.02, "accuracy_std": 0.02, "noise": 1e-3}


def _stored(
    name: str,
    function: Callable[..., dict[str, Any]],
    tolerance: Tolerance,
    cost: Callable[[Mapping[str, Any]], float],
    speedup: float = 1.0,
    **scales: Callable[[], Grid],
) -> Experiment:
    return Experiment(
        f"private_prediction_{name}", function, scales, tolerance, cost, speedup
    )


_QUICK: dict[str, Any] = {"privacy": {"quick": grids.quick}}  # Figure 1 alone
EXPERIMENTS = [
    *(
        _stored(name, trade_off, _TRADED, _seconds, paper=grid, **_QUICK.get(name, {}))
        for name, grid in grids.GRIDS.items()
    ),
    _stored("bias", trade_off, _TRADED, _seconds, paper=grids.bias),
    _stored("times", training_time, _TIMED, lambda _: 2.0, paper=grids.times),
    _stored(
        "network_settings",
        network_setting,
        _NOISY,
        _setting_seconds,
        DP_SGD_SPEEDUP,
        paper=grids.network_settings,
    ),
    _stored(
        "vote_networks",
        vote_network,
        _TRAINED,
        lambda parameters: VOTE_EPOCH * float(parameters["epochs"]),
        GPU_SPEEDUP,
        paper=grids.vote_networks,
    ),
    _stored(
        "networks",
        network,
        _VOTED,
        _network_seconds,
        DP_SGD_SPEEDUP,
        paper=grids.networks,
    ),
]
