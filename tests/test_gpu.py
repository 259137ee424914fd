"""Every learner, architecture and estimator on a GPU, pretended or real: the same
results as on the CPU, and nothing that a GPU refuses or does slowly without a word.
"""

import inspect
from typing import ClassVar
from unittest import mock

import numpy as np
import pytest
import torch
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.datasets import load_digits

from dpnotes import learners, methods
from tests.learners import test_learners
from tests.pretended import pretended_gpu
from tests.test_scikit_learn import CASES

# in color and 32 x 32, which VGG16 asks for; without ties, for pooling breaks them
IMAGES = np.random.default_rng(0).random((6, 3, 32, 32))
LABELS = np.arange(6)


def door(package, is_one):
    """What a package offers and is one of these, by name."""
    offered = {name: getattr(package, name) for name in dir(package)}
    return {name: found for name, found in offered.items() if is_one(found)}


def builds_a_network(found):
    return (
        inspect.isfunction(found) and "generator" in inspect.signature(found).parameters
    )


ARCHITECTURES = door(learners, builds_a_network)


def is_estimator(found):
    return (
        inspect.isclass(found)
        and issubclass(found, BaseEstimator)
        and "device" in inspect.signature(found).parameters
    )


def test_all_are_tried():
    assert len(ARCHITECTURES) >= 4
    takes_device = door(
        learners,
        lambda found: (
            inspect.isfunction(found)
            and {"X", "images"} & {*inspect.signature(found).parameters}
            and "device" in inspect.signature(found).parameters
        ),
    )
    compared = inspect.getsource(test_learners)
    assert len(takes_device) >= 8
    assert all(f"learners.{name}" in compared for name in takes_device)
    estimators = {**door(methods, is_estimator), **door(learners, is_estimator)}
    assert len(estimators) >= 10
    for name, found in estimators.items():
        # a base class is tried by what is made of it
        assert any(isinstance(case.estimator, found) for case in CASES), name


@pytest.mark.parametrize("engine", ["loop", "batched", "DP-SGD"])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_architectures(gpu, name, engine):
    def build(generator):
        return ARCHITECTURES[name](IMAGES.shape[1:], 10, generator=generator)

    def weights(device):
        how = {"learning_rate": 1e-3, "seed": 0, "device": device}
        if engine == "DP-SGD":
            how |= {"noise_multiplier": 0.0, "clipping_norm": 0.5}
            how |= {"steps": 2, "sample_rate": 0.5, "n_records": len(IMAGES)}
            fitted = learners.fit_dp_sgd_network(build, IMAGES, LABELS, **how)
        else:
            how |= {"epochs": 1, "batch_size": 2, "engine": engine}
            # Adam divides by gradients that may be 0 up to rounding
            how |= {"optimizer": "momentum", "augmentation": "crop-flip"}
            subsets = np.arange(6).reshape(2, 3)
            fitted = learners.fit_networks(build, IMAGES, LABELS, subsets, **how)
        return [value.numpy() for value in fitted.parameters.values()]

    for here, there in zip(weights("cpu"), weights("cuda"), strict=True):
        np.testing.assert_allclose(there, here, atol=gpu.tolerance)
    assert gpu.launches is None or gpu.launches > 0


class Watched(torch.nn.Linear):
    """A layer that notes how cuDNN and products in float32 are set while it works."""

    seen: ClassVar = set()

    def forward(self, x):
        cudnn = torch.backends.cudnn
        precise = torch.get_float32_matmul_precision() == "highest"
        precise &= cudnn.conv.fp32_precision == "ieee"
        self.seen.add((precise, cudnn.deterministic, cudnn.benchmark))
        return super().forward(x.flatten(1))


def test_training_and_answers_repeat_and_keep_all_digits(monkeypatch):
    """Whatever the caller has chosen, which is as before afterwards."""
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    torch.set_float32_matmul_precision("medium")
    try:
        how = {"learning_rate": 0.1, "seed": 0, "device": "cpu"}
        fitted = learners.fit_networks(
            lambda generator: Watched(3072, 6),
            IMAGES,
            LABELS,
            [range(6)],
            epochs=1,
            batch_size=3,
            engine="loop",
            **how,
        )
        # a first look at the network, before training, decides nothing
        assert (True, True, False) in Watched.seen
        Watched.seen.clear()
        fitted.votes(IMAGES, device="cpu")
        assert Watched.seen == {(True, True, False)}
        assert torch.get_float32_matmul_precision() == "medium"
        assert torch.backends.cudnn.benchmark
    finally:
        torch.set_float32_matmul_precision("highest")


@pytest.mark.parametrize("n_classes", [2, 3])
def test_votes_that_a_record_touches(gpu, n_classes):
    draws = np.random.default_rng(0)
    membership = draws.integers(4, size=(50, 6))  # [records, partitions]
    votes = draws.integers(n_classes, size=(6, 4, 9))  # [partitions, teachers, queries]

    def sums(device):
        touched = learners.TouchedVotes(
            membership, n_teachers=4, n_classes=n_classes, device=device
        )
        return touched.add(votes), touched.totals

    for here, there in zip(sums("cpu"), sums("cuda"), strict=True):
        np.testing.assert_array_equal(there, here)


def on(device, estimator):
    """A copy of an estimator, all of whose parts work on a device."""
    own = clone(estimator)
    names = [name for name in own.get_params() if name.split("__")[-1] == "device"]
    return own.set_params(**dict.fromkeys(names, device))


# noise that is drawn on the device has other streams there: as good as none; and few
# steps, each of which takes its time on a pretended device
QUIET = {"noise_multiplier": 1e-9, "random_state": 0, "steps": 5, "epochs": 2}


CLASSIFIERS = [case for case in CASES if is_classifier(case.estimator)]


@pytest.mark.parametrize("case", CLASSIFIERS, ids=lambda case: case.name)
def test_estimators(gpu, case):
    X, y = load_digits(n_class=2, return_X_y=True)
    X, y = X[:100] / 16, y[:100]

    def answers(device):
        model = on(device, case.estimator)
        known = {name: QUIET[name] for name in QUIET if name in model.get_params()}
        model.set_params(**known).fit(X, y)
        answer = getattr(model, "decision_function", model.predict)
        return np.asarray(answer(X[:20]), dtype=float)

    with mock.patch.object(torch.cuda, "is_available", return_value=False):
        here = answers("cpu")
    before = gpu.launches
    np.testing.assert_allclose(answers("cuda"), here, rtol=1e-6, atol=gpu.tolerance)
    if before is not None and case.estimator.get_params().get("estimator") is None:
        assert gpu.launches > before or "device" not in case.estimator.get_params()


def cuda(*shape):
    return torch.ones(*shape, device="cuda")


# what a person may write, and what the error says of it; each is a line of its own
FAULTS = {
    "rows left on the CPU": (
        lambda: cuda(3) + torch.ones(3),
        "expected all tensors on cuda:0",
    ),
    "weights left on the CPU": (
        lambda: torch.nn.Linear(3, 2)(cuda(1, 3)),
        "expected all tensors on cuda:0",
    ),
    "one block of several left on the CPU": (
        lambda: torch.cat([cuda(2), torch.ones(2)]),
        "expected all tensors on cuda:0",
    ),
    "an index on the CPU": (
        lambda: cuda(3)[torch.tensor([0, 2])],
        "an index on the CPU is copied",
    ),
    "a mask on the CPU": (
        lambda: cuda(3).masked_fill_(torch.tensor([True, False, True]), 0.0),
        "expected all tensors on cuda:0",
    ),
    "places of a result on the CPU": (
        lambda: cuda(3).index_put_((torch.tensor([0]),), cuda(1)),
        "an index on the CPU is copied",
    ),
    "a factor on the CPU": (
        lambda: cuda(3) * torch.tensor(2.0),
        "a number on the CPU is read",
    ),
    "noise of a generator of the CPU": (
        lambda: torch.randn(3, device="cuda", generator=torch.Generator()),
        "a generator of cpu for a tensor of cuda",
    ),
    "weights drawn in place by a generator of the CPU": (
        lambda: cuda(3).normal_(generator=torch.Generator()),
        "a generator of cpu for a tensor of cuda",
    ),
    "an order drawn by a generator of the GPU": (
        lambda: torch.randperm(3, generator=torch.Generator("cuda")),
        "a generator of cuda for a tensor of cpu",
    ),
    "a result that NumPy is to read": (
        lambda: cuda(3).numpy(),
        "use cpu.. first",
    ),
    "a result that NumPy reads by itself": (
        lambda: np.asarray(cuda(3)),
        "use cpu.. first",
    ),
    "a gradient that meets labels on the CPU": (
        lambda: torch.nn.functional.cross_entropy(
            cuda(2, 3).requires_grad_(), torch.tensor([0, 1])
        ).backward(),
        "expected all tensors on cuda:0",
    ),
    "momentum of the other device": (
        lambda: cuda(3).mul_(0.9).add_(torch.zeros(3)),
        "expected all tensors on cuda:0",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_seen_with_their_line(fault):
    wrong, message = FAULTS[fault]
    first = inspect.getsourcelines(wrong)[1]
    lines = range(first, first + 4)
    with (
        pretended_gpu(),
        pytest.raises((RuntimeError, TypeError), match=message) as told,
    ):
        wrong()
    name, _, line = str(told.value).rpartition("at ")[2].partition(":")
    assert name == "test_gpu.py"
    assert int(line) in lines
