"""What all learners share: many models are one at a time, in any chunks; seeds,
dtypes, pickles, devices, bad input.
"""

import pickle
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from sklearn.datasets import load_digits
from torch import nn

from dpnotes import learners
from dpnotes.learners import _devices

M = 5  # models of each learner
X, Y = load_digits(return_X_y=True)
X = X[:400] / 64
PAIR = (Y[:400] > 4).astype(int)
Y = Y[:400]
GENERATOR = np.random.default_rng(0)
# with fewer rows than features, and with more: other engines fit them
SHORT = [GENERATOR.permutation(400)[: 31 + k % 3] for k in range(M)]
LONG = [GENERATOR.permutation(400)[: 199 + k % 2] for k in range(M)]
# linear terms, one of each model
NOISE = GENERATOR.normal(size=(M, 10, 64))


def perceptron(generator):
    return learners.multilayer_perceptron(
        (1, 8, 8), 10, hidden=(6,), generator=generator
    )


def weights(networks):
    flat = [value.flatten(1) for value in networks.parameters.values()]
    return torch.cat(flat, 1).numpy()


def linear(models):
    M = len(models)
    flat = [models.weights.reshape(M, -1), models.intercept.reshape(M, -1)]
    return np.concatenate(flat, 1)


@dataclass
class Learner:
    """A function of X, y and the settings, and of the numbers that its result has
    learned, [models, ...].
    """

    function: object
    many: str
    settings: dict
    numbers: object = linear
    pair: bool = False  # of two classes
    tolerance: float = 1e-11
    chunks: bool = True


def of(function):
    def fit(X, y, build=perceptron, **settings):
        images = X.reshape(-1, 1, 8, 8) if X.ndim == 2 else X
        return function(build, images, y, **settings)

    return fit


# the GPU has a test of its own
CPU = {"device": "cpu"}
SOFTMAX = {"n_classes": 10, "l2": 1e-2, "tolerance": 1e-9, **CPU}
NETS = {"epochs": 2, "batch_size": 16, "learning_rate": 1e-2, "seed": 3, **CPU}
PRIVATE = {
    "clipping_norm": 0.5,
    "sample_rate": 0.1,
    "n_records": 400,
    "steps": 8,
    "learning_rate": 1.0,
    "seed": 3,
    **CPU,
}
SGD = {"steps": 30, "batch_size": 16, "learning_rate": 0.5, **CPU}
MANY = {  # how each function is told of k models
    "short": lambda k: {"subsets": SHORT[:k]},
    "long": lambda k: {"subsets": LONG[:k]},
    # without noise and with noise, side by side in one chunk
    "noises": lambda k: {"noise_multiplier": [0.0, 0.5, 1.0, 2.0, 0.0][:k]},
    "noise": lambda k: {"noise_multiplier": [0.5] * k},
    "linear": lambda k: {"linear": NOISE[:k]},
    "runs": lambda k: {"n_runs": k},
}
LEARNERS = {
    # in the span of the rows, and in the weights
    "softmax, short": Learner(
        learners.fit_multinomial_logistic, "short", SOFTMAX | {"intercept": True}
    ),
    "softmax, long": Learner(learners.fit_multinomial_logistic, "long", SOFTMAX),
    # the linear system of a step has the size of the rows, or of the weights
    "binary, dual": Learner(
        learners.fit_binary_logistic, "short", {"l2": 1e-2, **CPU}, pair=True
    ),
    "binary, primal": Learner(
        learners.fit_binary_logistic, "long", {"l2": 1e-2, **CPU}, pair=True
    ),
    "perturbed": Learner(  # gradients within 1e-9 of objectives that bend by 1e-2
        learners.fit_perturbed_logistic, "linear", SOFTMAX, tolerance=1e-5
    ),
    "trees": Learner(
        learners.fit_boosted_trees,
        "short",
        {"n_trees": 6, **CPU},
        lambda trees: trees.logits(X, **CPU),
        pair=True,
    ),
    # all models in one program, or one after the other
    "networks, batched": Learner(
        of(learners.fit_networks), "short", NETS | {"engine": "batched"}, weights
    ),
    "networks, loop": Learner(
        of(learners.fit_networks), "short", NETS | {"engine": "loop"}, weights
    ),
    "DP-SGD, linear": Learner(
        learners.fit_dp_sgd_linear, "noises", PRIVATE | {"n_classes": 10}
    ),
    "DP-SGD, shared batches": Learner(
        learners.fit_dp_sgd_linear,
        "noises",
        PRIVATE | {"n_classes": 10, "shared_batches": True},
    ),
    "DP-SGD, networks": Learner(
        of(learners.fit_dp_sgd_network), "noise", PRIVATE, weights, chunks=False
    ),
    "SGD": Learner(
        learners.fit_sgd, "runs", SGD, lambda runs: runs.all_weights, pair=True
    ),
    # copies of the data set, of which each has another record in one place
    "SGD, neighbours": Learner(
        learners.fit_sgd,
        "runs",
        SGD | {"neighbours": [3, 9, 30], "replacement": 0, "hidden": 4},
        lambda runs: runs.all_weights,
        pair=True,
    ),
}


def fit(name, k=M, X=X, **changes):
    learner = LEARNERS[name]
    y = changes.pop("y", PAIR if learner.pair else Y)
    return learner.function(X, y, **MANY[learner.many](k) | learner.settings | changes)


def numbers(name, *arguments, **changes):
    return LEARNERS[name].numbers(fit(name, *arguments, **changes))


@pytest.mark.parametrize("name", LEARNERS)
def test_a_model_depends_neither_on_the_others_nor_on_the_chunk(name):
    """Catches draws from one stream for all, padding that counts, a result in the
    wrong place, a mixed-up model.
    """
    together = numbers(name)
    tolerance = LEARNERS[name].tolerance
    assert len(together) == M
    # the last is without noise, as the first is, where there are several noises
    for other in together[1 : M - 1]:
        assert np.abs(other - together[0]).max() > 1e-6
    # without the models that come after
    np.testing.assert_allclose(numbers(name, 2), together[:2], atol=tolerance)
    for chunk in (1, 2, M) if LEARNERS[name].chunks else ():
        np.testing.assert_allclose(numbers(name, chunk=chunk), together, atol=tolerance)


@pytest.mark.parametrize("name", LEARNERS)
def test_global_state_and_inputs_are_left_alone_and_the_seed_decides(name):
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    rows = X.copy()
    # data sets are handed out read-only; a warning would be an error here
    rows.setflags(write=False)
    # a learner that drew from global state would change it
    torch_state = torch.get_rng_state()
    threads = torch.get_num_threads()
    first = numbers(name, X=rows)
    assert torch.equal(torch.get_rng_state(), torch_state)
    assert np.array_equal(np.random.get_state()[1], state)  # noqa: NPY002
    assert torch.get_num_threads() == threads
    # and one that read it would give something else now
    torch.manual_seed(99)
    np.testing.assert_array_equal(numbers(name, X=rows), first)
    if "SGD" in name or "networks" in name:
        # where there is chance, the seed decides it
        seed = {"random_state" if name.startswith("SGD") else "seed": 77}
        assert not np.array_equal(numbers(name, **seed), first)
    # by default float64, whatever X is
    wide = "neighbours" in name or "binary" in name
    # what float32 can reach
    own = {"tolerance": 1e-5} if "tolerance" in LEARNERS[name].settings else {}
    narrow = numbers(name, X=X.astype(np.float32), **own)
    assert narrow.dtype == (np.float64 if wide else np.float32)
    np.testing.assert_allclose(narrow, first, atol=1e-9 if wide else 0.05)


BY_DP_SGD = [name for name in LEARNERS if name.startswith("DP-SGD")]


@pytest.mark.parametrize("momentum", [0.0, 0.5])
@pytest.mark.parametrize("name", BY_DP_SGD)
def test_empty_records_count_in_the_expected_batch(name, momentum):
    """A fourth record for each three: steps are three quarters as long, on the same
    batches. Nothing is taken from the number of rows, not even a limit.
    """
    records = {"X": X[:300], "y": Y[:300], "momentum": momentum}
    more = numbers(name, n_records=400, **records)
    # the same expected batch by fewer records, or by a smaller rate
    for rate, n in ((0.75, 300), (0.1875, 75)):
        same = numbers(name, n_records=n, learning_rate=rate, **records)
        np.testing.assert_allclose(more, same, atol=1e-11)


@pytest.mark.parametrize("name", BY_DP_SGD)
def test_empty_batches_are_steps_of_noise_alone(name):
    empty = {"sample_rate": 1e-9}
    nothing = fit(name, noise_multiplier=[0.0], **empty)
    # there is no example to have a loss
    assert np.isnan(getattr(nothing, "loss", np.nan)).all()
    still = LEARNERS[name].numbers(nothing)
    once = numbers(name, noise_multiplier=[0.0], steps=1, **empty)
    np.testing.assert_array_equal(once, still)
    assert (numbers(name, noise_multiplier=[1e-9], **empty) != still).all()
    # of batches of two examples on average one in seven is empty
    some = numbers(name, noise_multiplier=[0.0], sample_rate=0.005)
    assert np.isfinite(some).all()
    assert (some != still).any()


@pytest.mark.parametrize("name", BY_DP_SGD)
def test_noise_may_have_another_source(name):
    """The stream of the seed as that source gives the same model, and the seed has
    no part in it.
    """
    seed = np.random.SeedSequence(3, spawn_key=(0, 2))
    stream = np.random.Generator(np.random.SFC64(seed)).standard_normal
    noisy = numbers(name, noise_multiplier=[1.3])
    still = numbers(name, noise_multiplier=[0.0])
    for normal, expected in ((stream, noisy), (np.zeros, still)):
        found = numbers(name, normal=normal, noise_multiplier=[1.3])
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", [name for name in LEARNERS if "networks" not in name])
def test_results_are_pickled(name):
    fitted = fit(name)
    again = pickle.loads(pickle.dumps(fitted))
    read = LEARNERS[name].numbers
    np.testing.assert_array_equal(read(again), read(fitted))


@pytest.mark.parametrize("name", LEARNERS)
def test_gpu_equals_cpu(gpu, name):
    # noise is drawn on the device
    changes = {"noise_multiplier": [0.0] * M} if "DP-SGD" in name else {}
    tolerance = max(LEARNERS[name].tolerance, gpu.tolerance)
    there = numbers(name, device="cuda", **changes)
    np.testing.assert_allclose(there, numbers(name, **changes), atol=tolerance)
    if "DP-SGD" in name and LEARNERS[name].chunks:
        # noise of a GPU is of a model, whatever the chunk
        noisy = [numbers(name, device="cuda", chunk=chunk) for chunk in (1, M)]
        np.testing.assert_allclose(noisy[0], noisy[1], atol=1e-10)


class Mixing(nn.Module):
    """Subtracts from an example what all have in common."""

    def forward(self, x):
        return x - x.mean(0, keepdim=True)


# a network that its learner must refuse
def with_layer(*layers):
    return lambda generator: nn.Sequential(nn.Flatten(), *layers)


ROWS = [  # of any learner
    ({"X": np.zeros((400, 2), int)}, "X must be float32 or float64, got int64"),
    ({"X": np.full((400, 2), np.nan)}, "X must be finite, got 800 bad entries"),
    ({"y": np.zeros(5, int)}, "X and y must have equal length, got 400 rows"),
    ({"y": np.full(400, 10)}, r"y must hold class codes in 0\.\.\d, got 10\.\.10"),
    ({"chunk": 0}, "chunk must be >= 1"),
    ({"device": "cuda"}, "PyTorch sees no GPU"),
]
SUBSETS = [
    ({"subsets": []}, "at least one subset"),
    ({"subsets": [[1], []]}, "got subset 1 of 0 rows|integer row indices"),
    ({"subsets": np.array([[400]])}, r"row indices in 0\.\.399, got 400\.\.400"),
    ({"subsets": np.array([[-1]])}, r"row indices in 0\.\.399, got -1\.\.-1"),
    ({"subsets": np.array([1, 2])}, "subsets must have shape"),
    (
        {"subsets": [[0, 1], [[2]]]},
        r"one-dimensional index arrays, got shape \(1, 1\) at 1",
    ),
    ({"subsets": [[0, 1], [0.5]]}, "integer row indices, got float64 at 1"),
]
# of both learners of DP-SGD
NOISY = [
    ({"steps": 0}, "steps must be >= 1, got steps=0"),
    ({"seed": -1}, "seed must be >= 0"),
    ({"sample_rate": 1.5}, r"sample_rate must be in \(0, 1\], got sample_rate=1.5"),
    ({"sample_rate": 0.0}, "sample_rate must be > 0"),
    ({"n_records": 0}, "n_records must be >= 1, got n_records=0"),
    (
        {"noise_multiplier": -1.0},
        "noise_multiplier must be >= 0, got noise_multiplier=-1.0",
    ),
    (
        {"noise_multiplier": [1.0, np.inf]},
        "noise_multiplier must be finite and >= 0, got .*inf",
    ),
    ({"noise_multiplier": []}, "noise_multiplier must be a number or have shape"),
    ({"clipping_norm": 0.0}, "clipping_norm must be positive, got clipping_norm=0.0"),
    (
        {"clipping_norm": np.nan},
        "clipping_norm must be positive, got clipping_norm=nan",
    ),
    (
        {"clipping_norm": np.inf},
        "clipping_norm=inf needs noise_multiplier=0, got noise_multiplier=",
    ),
    (
        {"clipping_norm": 1e-200},
        r"clipping_norm must be in \[4.9e-91, 3.3e\+150\] for torch.float64, got .*200",
    ),
    ({"clipping_norm": 1e151}, "clipping_norm must be in .*, got clipping_norm=1e"),
    (
        {"learning_rate": 0.0},
        "learning_rate must be finite and > 0 at every step, got 0.0 at step 0",
    ),
    (
        {"learning_rate": [1.0, 1.0]},
        "learning_rate must have one entry for each of 8 steps",
    ),
    ({"momentum": 1.0}, "momentum must be < 1, got momentum=1.0"),
    (
        {"learning_rate": 1e308, "noise_multiplier": 1e6},
        "training( of model 0)? diverged",
    ),
]
# of all learners of networks
IMAGES = [
    (
        {"y": np.zeros(5, int)},
        "images and labels must have equal length, got 400 and 5",
    ),
    (
        {"y": np.full(400, 10)},
        r"labels must hold class codes of the network, 0\.\.9, got 10\.\.10",
    ),
    ({"y": np.full(400, 0.5)}, "labels must hold class codes, shape .n., got float64"),
    (
        {"X": np.zeros((0, 64)), "y": np.zeros(0, int)},
        "images must hold at least one image, got none",
    ),
    ({"X": np.zeros((400, 64), np.int16)}, "images must be float32.*, got int16"),
    ({"X": np.full((400, 64), np.nan)}, "images must be finite, got 25600 bad entries"),
    (
        {"optimizer": "sgdd"},
        "optimizer must be one of 'adam', 'momentum', 'sgd', got optimizer='sgdd'",
    ),
    (
        {"build": with_layer(nn.BatchNorm1d(64), nn.Linear(64, 10))},
        "cannot compute the logits of an example alone: Expected more than 1 value",
    ),
    (
        {"build": with_layer(Mixing(), nn.Linear(64, 10))},
        "logits for an example depend on the other examples of its batch",
    ),
    (
        {"build": with_layer(nn.Dropout(0.1), nn.Linear(64, 10))},
        "logits for an example differ from call to call, as with dropout",
    ),
    (
        {"build": with_layer(nn.Linear(64, 10).requires_grad_(False))},
        "nothing to train",
    ),
    (
        {"build": with_layer(nn.PReLU(), nn.Unflatten(1, (2, 32)))},
        r"logits \[n, n_classes\], got shape \(1, 2, 32\)",
    ),
]
# what each learner refuses, and the words that name it
BAD = {
    "softmax, short": [
        *ROWS,
        *SUBSETS,
        ({"X": np.zeros(400)}, "X must have shape"),
        ({"y": np.zeros(400)}, "y must hold integer class codes, got float64"),
        ({"l2": -1.0}, r"l2 must be >= 0, got l2=-1\.0"),
        ({"l2": np.nan}, "l2 must be >= 0, got l2=nan"),
        ({"tolerance": 0.0}, "tolerance must be > 0"),
        ({"max_iterations": -1}, "max_iterations must be >= 0"),
        ({"n_classes": 1}, "n_classes must be >= 2"),
        ({"dtype": np.int32}, "dtype must be float32 or float64"),
    ],
    "binary, dual": [*ROWS, SUBSETS[2], ({"l2": 0.0}, r"l2 must be > 0, got l2=0\.0")],
    "perturbed": [
        *ROWS,
        (
            {"linear": np.zeros((2, 10, 63))},
            r"linear must have shape \[2, 10, 64\], got shape \(2, 10, 63\)",
        ),
        (
            {"linear": np.full((2, 10, 64), np.inf)},
            "linear must be finite, got 1280 bad entries",
        ),
        ({"l2": 0.0}, "l2 must be > 0"),
        ({"start": np.zeros((10, 63))}, "start must have shape"),
    ],
    "trees": [
        *ROWS,
        *SUBSETS[1:3],
        ({"n_trees": 0}, "n_trees must be >= 1"),
        ({"depth": 9}, "depth must be >= 1 and <= the largest depth=8, got depth=9"),
        ({"learning_rate": 0.0}, "learning_rate must be > 0"),
    ],
    "networks, batched": [
        *IMAGES,
        *ROWS[4:],
        *SUBSETS[1:3],
        ({"epochs": 0}, "epochs must be >= 1"),
        ({"batch_size": 0}, "batch_size must be >= 1"),
        ({"learning_rate": -1.0}, "learning_rate must be > 0"),
        ({"momentum": 1.0}, "momentum must be < 1, got momentum=1.0"),
        (
            {"augmentation": "flip"},
            "augmentation must be None or 'crop-flip', got augmentation='flip'",
        ),
        (
            {"augmentation": "crop-flip", "X": X[:, :, None]},
            r"augmentation='crop-flip' needs images .* got 3 axes",
        ),
        ({"schedule": {-1: 0.1}}, "epochs of schedule must be >= 0, got .*-1"),
        ({"schedule": {1: np.nan}}, "factors of schedule must be >= 0, got .*nan"),
        ({"new_last_layer": True}, "new_last_layer=True needs .* got initial=None"),
        ({"initial": {}}, "initial must hold all parameters, but '.*' is missing"),
        (
            {"initial": {"9.weight": torch.zeros(2)}},
            "initial names '9.weight', but the network has 1.weight, ",
        ),
        (
            {"engine": "vmap"},
            "engine must be one of 'auto', 'loop', 'batched', got engine='vmap'",
        ),
        (
            {"learning_rate": 1e300},
            "training of model 0 diverged .* lower learning_rate=1e.300",
        ),
    ],
    "networks, loop": [
        # what is refused before an engine is chosen is tried once
        *IMAGES[7:],
        ({"learning_rate": 1e300}, "training of model 0 diverged"),
    ],
    "DP-SGD, linear": [
        *ROWS,
        *NOISY,
        (
            {"noise_multiplier": [1.0, 2.0], "n_repeats": 3},
            "noise_multiplier has 2 entries for 3 models",
        ),
        ({"n_repeats": 0}, "n_repeats must be >= 1"),
        ({"dtype": "float16"}, "dtype must be float32 or float64, got dtype='float16'"),
    ],
    "DP-SGD, networks": [*IMAGES, ROWS[5], *NOISY],
    "SGD": [
        *ROWS,
        ({"n_runs": 0}, "n_runs must be >= 1"),
        ({"random_state": -1}, "random_state must be >= 0"),
        ({"init_seeds": [1, 2]}, "init_seeds must be one integer >= 0 or 5 of them"),
        ({"init_seeds": -3}, "init_seeds must be one integer >= 0"),
        (
            {"replacement": 3},
            "replacement needs neighbours=, the records to replace, got replacement=3",
        ),
        ({"steps": 0}, "steps must be >= 1"),
        (
            {"batch_size": 401},
            "batch_size must be >= 1 and <= n=400, got batch_size=401",
        ),
        (
            {"learning_rate": np.ones(3)},
            "learning_rate must have one entry for each of 30 steps",
        ),
        (
            {"learning_rate": lambda step: 3 - step},
            "learning_rate .* got 0.0 at step 3",
        ),
        ({"hidden": 0}, "hidden must be >= 1"),
        (
            {"output": "tanh"},
            "output must be one of 'sigmoid', 'softmax', got output='tanh'",
        ),
        ({"output": "softmax"}, "output must be 'sigmoid' without a hidden layer"),
        ({"initial": np.zeros(6)}, r"initial must be .* of shape \[65\] or \[5, 65\]"),
        ({"initial": np.full(65, np.nan)}, "initial must be finite, got 65"),
        ({"checkpoints": [3, 2]}, r"checkpoints must increase within 0\.\.30"),
        ({"checkpoints": [31]}, r"checkpoints must increase within 0\.\.30"),
        (
            {"empty": np.ones(3, bool)},
            "empty must be 400 truth values, with hidden=None",
        ),
        (
            {"hidden": 2, "empty": np.ones(400, bool)},
            "empty must be 400 truth values, with hidden=None",
        ),
        (
            {"X": X * 1e200, "hidden": 3},
            r"training of run \d diverged; lower learning_rate",
        ),
    ],
    "SGD, neighbours": [
        ({"neighbours": []}, "neighbours must be integers of shape"),
        ({"neighbours": [0.5]}, "neighbours must be integers of shape"),
        (
            {"neighbours": [400]},
            r"neighbours must be in 0\.\.399, got an entry outside",
        ),
        ({"neighbours": [0]}, "neighbours must not hold replacement=0"),
        (
            {"replacement": 400},
            "replacement must be >= 0 and <= the last row=399, got replacement=400",
        ),
        ({"replacement": (np.zeros(5), 1)}, "replacement must have the 64 features"),
        ({"replacement": (np.full(64, np.nan), 1)}, "replacement must be finite"),
        (
            {"replacement": (np.zeros(64), 2)},
            "class code must be >= 0 and <= the last class=1",
        ),
    ],
}


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [(name, *row) for name, rows in BAD.items() for row in rows],
    ids=lambda value: None,
)
def test_bad_input_is_named(name, change, message, monkeypatch):
    # as on a machine without one
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match=message):
        fit(name, **change)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("SGD", {"n_runs": 2.0}, "n_runs must be an integer"),
        (
            "SGD",
            {"learning_rate": "0.1"},
            "learning_rate must be a number, an array of them or a callable",
        ),
        ("SGD, neighbours", {"replacement": 1.5}, "replacement must be an integer"),
        ("SGD, neighbours", {"replacement": None}, "replacement must be an integer"),
        ("networks, loop", {"schedule": 0.1}, r"schedule must be .* got schedule=0\.1"),
    ],
)
def test_settings_of_the_wrong_kind_are_named(name, change, message):
    with pytest.raises(TypeError, match=message):
        fit(name, **change)


@pytest.mark.parametrize(
    "name", [name for name in LEARNERS if LEARNERS[name].chunks and "loop" not in name]
)
def test_a_chunk_beyond_the_memory_is_named(name, monkeypatch):
    # less than any model needs
    monkeypatch.setattr("dpnotes.learners._devices.free_bytes", lambda device: 10)
    with pytest.raises(MemoryError, match=r"chunk=\d models of .* need .* GB"):
        fit(name, chunk=M)


HERE = torch.device("cpu")


@given(st.integers(1, 10_000), st.integers(1, 10**7), st.integers(1, 8))
def test_chunks_cover_all_models_within_the_budget_and_nearly_equally(
    n_models, size, threads
):
    chunk = _devices.chunk_size(n_models, size, HERE, n_threads=threads)
    parts = list(_devices.slices(n_models, chunk))
    covered = np.concatenate([np.arange(n_models)[part] for part in parts])
    np.testing.assert_array_equal(covered, np.arange(n_models))
    assert chunk == 1 or chunk * size <= _devices.CPU_BUDGET * threads
    # one chunk fewer would break the budget: nothing is gained by smaller ones
    if len(parts) > 1:
        # of the models that the caches hold
        most = max(1, _devices.CPU_BUDGET * threads // size)
        assert (len(parts) - 1) * most < n_models


def test_own_choice_is_kept_and_checked(monkeypatch):
    assert _devices.chunk_size(10, 1000, HERE, chunk=3) == 3
    assert _devices.chunk_size(10, 1000, HERE, chunk=30) == 10
    monkeypatch.setattr(_devices, "free_bytes", lambda device: 7_500_000)
    message = r"chunk=10 models of 1\.0 MB need 0\.01 GB.*chunk=7 would fit"
    with pytest.raises(MemoryError, match=message):
        _devices.chunk_size(10, 1_000_000, HERE, chunk=10)
    assert _devices.chunk_size(10, 1_000_000, HERE, chunk=7) == 7
    with pytest.raises(MemoryError, match="not even chunk=1 fits"):
        _devices.chunk_size(10, 8_000_000, HERE)


def test_what_an_iteration_reads_decides_on_a_cpu_and_what_is_held_bounds_it(
    monkeypatch,
):
    # 16 quarters of a MiB are the budget
    assert _devices.chunk_size(64, 10**6, HERE, touched=2**18, n_threads=1) == 16
    # half of it for the models, the rest for what a step makes of them
    monkeypatch.setattr(_devices, "free_bytes", lambda device: 8_000_000)
    assert _devices.chunk_size(64, 10**6, HERE, touched=2**18, n_threads=1) == 4


def test_out_of_memory_inside_names_a_smaller_chunk():
    def fail(error):
        with _devices.memory_named(8, 1000, HERE):
            raise error

    with pytest.raises(MemoryError, match="chunk=4 would fit"):
        fail(torch.OutOfMemoryError("CUDA out of memory"))
    with pytest.raises(RuntimeError, match="shape"):
        fail(RuntimeError("shape"))
    # and what PyTorch says on a CPU
    wanted = _devices.memory_named(8, 2**50, HERE)
    with pytest.raises(MemoryError, match="chunk=8"), wanted:
        torch.empty(2**56, dtype=torch.uint8)
