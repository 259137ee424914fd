"""DP-SGD on softmax regressions, many at once, and on networks, one after the other.

Each model has three separate streams for initial weights, batches and noise, spawned
from the seed and the model's index. Therefore the draws of a model depend neither on
the number of models nor on the chunks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from dpnotes import _validation as check
from dpnotes._progress import counted
from dpnotes._validation import Features, Floats, Integers
from dpnotes.learners._clipping import (
    SAFE,
    SoftmaxSums,
    clipped_sums,
    micro_batch_size,
)
from dpnotes.learners._descent import (
    Checkpoint,
    Optimizer,
    Progress,
    Rate,
    digest,
    step_rates,
)
from dpnotes.learners._devices import (
    Group,
    choose_device,
    fit_groups,
    full_float32,
    image_layout,
    slices,
    spawned_seed,
    torch_generator,
)
from dpnotes.learners._logistic import LogisticModels
from dpnotes.learners._network_training import check_data, check_network
from dpnotes.learners._networks import Build, Networks
from dpnotes.learners._threads import one_thread

WEIGHTS, BATCHES, NOISE = range(3)  # what the streams of a model are for
# numbers that a GPU draws for one model at once: a fixed size, since it decides the
# stream
NOISE_BLOCK = 2**18
# row numbers of batches that are drawn ahead and sent to the device at once
PLAN_ROWS = 2**18

# gives so many standard normal numbers, independent of all that was given before
Normal = Callable[[int], Floats]
# of the rows of a step, those of them that count, and the number of the step
Sums = Callable[[Tensor, Tensor | None, int], list[Tensor]]


def fit_dp_sgd_linear(
    X: Features,
    y: NDArray[np.integer],
    *,
    n_classes: int,
    noise_multiplier: ArrayLike,
    clipping_norm: float,
    steps: int,
    learning_rate: Rate,
    sample_rate: float,
    n_records: int,
    momentum: float = 0.0,
    n_repeats: int | None = None,
    shared_batches: bool = False,
    seed: int,
    normal: Normal | None = None,
    dtype: str | type | None = None,
    device: str = "auto",
    chunk: int | None = None,
) -> LogisticModels:
    """Fit softmax regressions with intercepts by DP-SGD from zero weights, all on the
    same rows.

    In each step the gradient g of every example of the batch is scaled by exactly
    ``min(1, clipping_norm / |g|)``. The sum gets independent normal noise of standard
    deviation ``noise_multiplier * clipping_norm`` on each coordinate, and is divided by
    the *expected* batch size. With an empty batch a step consists only of noise. The
    momentum sees the data only through the noisy sums. A row that is so long that
    squares would exceed the range of the dtype is shortened first, and an example whose
    logits exceed the range counts as an example of gradient 0.

    An example moves the sum by at most the clipping norm, whatever numbers it holds: its
    norm is clipped to a bound below, by 2^-18 of it in float32 and 2^-40 in float64,
    which covers the rounding of norms and products (of up to about 10,000 numbers).
    Products keep all digits of float32. What remains is the rounding of the addition:
    with b examples in a batch at most b^2 u clipping norms, for the unit roundoff u of
    the dtype, and independent of what the examples hold.

    Parameters
    ----------
    X : ndarray of float32 or float64, shape [n, d]
    y : ndarray of int, shape [n]
        Class codes 0 to ``n_classes - 1``.
    n_classes : int, >= 2
    noise_multiplier : float or array_like of float, shape [n_models], >= 0
        Ratio of the standard deviation of the noise to the clipping norm, without a
        unit; an array gives one model for each entry.
    clipping_norm : float, > 0
        Largest L2 norm of an example's gradient over weights and intercept together;
        ``inf`` is allowed only without noise.
    steps : int, >= 1
    learning_rate : float > 0, or array_like [steps], or callable of the step 0, 1, ...
    sample_rate : float in (0, 1]
        Probability that a given row is in a batch.
    n_records : int, >= 1
        Public number of records, which scales the steps: a sum is divided by ``sample_rate
        * n_records``, the expected size of a batch. It is a constant of the caller, and
        the number of rows changes nothing but the batches. Where the number of records
        is public, this is that number, with empty records, which have no row and move
        no sum. Where it is protected (add-remove), it must not depend on the data.
    momentum : float in [0, 1)
        Momentum in v <- momentum v + gradient; weights <- weights - learning_rate v.
    n_repeats : int, >= 1, optional
        Number of models with the same noise multiplier; by default 1.
    shared_batches : bool
        Whether all models see the batches of model 0 and differ only in their noise.
        This is much faster, because the models become columns of one product. Only
        their noise is then independent.
    seed : int, >= 0
    normal : callable, optional
        Source of the noise: ``normal(size)`` returns that many standard normal numbers
        in float64, regardless of the seed and the device. By default the noise comes
        from streams of the seed.
    dtype : {float32, float64}, optional
        Precision of the training; by default the dtype of X. Noise is drawn in float64
        and rounded.
    device : {"auto", "cpu", "cuda", ...}
        ``"auto"``: the GPU if there is one. Batches are drawn on the CPU and noise on
        the device, so noisy models depend on the kind of device.
    chunk : int, >= 1, optional
        Number of models trained at once; by default chosen from the available memory.
        Results with different chunks agree up to rounding.

    Returns
    -------
    LogisticModels
        Models without ``iterations``, ``gradient_norm`` and ``converged``: to test
        whether they have converged would use the data without noise.

    Raises
    ------
    ValueError
        If shapes disagree, an entry is not finite, a setting is out of its range, or
        training diverges: weights after a step, including the noise, exceed the range
        of the dtype.

    Source
    ------
    Abadi et al. (2016), arXiv:1607.00133, Algorithm 1, with Poisson sampling.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> models = fit_dp_sgd_linear(
    ...     X / 64,
    ...     y,
    ...     n_classes=10,
    ...     noise_multiplier=[0.0, 1.0],
    ...     clipping_norm=0.5,
    ...     sample_rate=0.1,
    ...     n_records=len(X),
    ...     steps=200,
    ...     learning_rate=8.0,
    ...     seed=0,
    ... )
    >>> (models.votes(X / 64) == y).mean(axis=1) > 0.8
    array([ True,  True])
    """
    X = check.features(X)
    classes = check.at_least("n_classes", n_classes, 2)
    y = check.class_codes(y, n=len(X), n_classes=classes)
    repeats = None if n_repeats is None else check.at_least("n_repeats", n_repeats, 1)
    kind = check.float_dtype(dtype, X)
    where = choose_device(device)
    # a copy, which the sums change
    data = torch.tensor(X, dtype=getattr(torch, kind.name), device=where)
    settings = Settings(
        data,
        noise_multiplier=noise_multiplier,
        clipping_norm=clipping_norm,
        learning_rate=learning_rate,
        steps=steps,
        sample_rate=sample_rate,
        n_records=n_records,
        seed=seed,
        normal=normal,
        optimizer=Optimizer("momentum" if momentum else "sgd", momentum),
        n_models=repeats,
    )
    sums = SoftmaxSums(data, torch.tensor(y, device=where), settings.clipping_norm)
    n_models = len(settings.noise)
    d = X.shape[1]

    def train(models: Integers) -> list[Tensor]:
        # the last column is the intercept
        held = data.new_zeros(len(models), classes, d + 1)
        settings.descend(
            models,
            [held],
            lambda batch, counts, step: [sums(held, batch, counts)],
            shared_batches=shared_batches,
        )
        return [held[:, :, :d], held[:, :, d]]

    batch = int(settings.expected_batch)
    # shared rows are held once for all models
    rows = 0 if shared_batches else batch
    # of one model: its rows, five copies of its weights and four of its logits
    numbers = rows * d + 5 * classes * (d + 1) + 4 * classes * batch
    group = Group(np.arange(n_models), train, kind.itemsize * numbers + 1, chunk=chunk)
    weights = np.empty((n_models, classes, d), kind)
    intercept = np.zeros((n_models, classes), kind)
    fit_groups([group], [weights, intercept], device=where)
    return LogisticModels(weights, intercept, device=device)


def fit_dp_sgd_network(
    build: Build,
    images: Features,
    labels: NDArray[np.integer],
    *,
    noise_multiplier: ArrayLike,
    clipping_norm: float,
    steps: int,
    learning_rate: Rate,
    sample_rate: float,
    n_records: int,
    optimizer: str = "sgd",
    momentum: float = 0.9,
    checkpoint: Checkpoint | None = None,
    seed: int,
    normal: Normal | None = None,
    device: str = "auto",
) -> Networks:
    """Fit networks by DP-SGD on the cross-entropy, all on the same images.

    In each step the gradient g of every example of the batch, over all trained
    parameters together, is scaled by exactly ``min(1, clipping_norm / |g|)``. The sum
    gets independent normal noise of standard deviation ``noise_multiplier *
    clipping_norm`` on each coordinate and is divided by the *expected* batch size. The
    optimizer uses the result as the gradient. With an empty batch a step consists only
    of noise. Parameters that do not require a gradient do not change and do not enter
    the norm. An example counts as an example of gradient 0 if its gradient, or the squared
    norm of the gradient, exceeds the range of the dtype. An example moves the sum by at
    most the clipping norm, as :func:`fit_dp_sgd_linear` explains.

    Parameters
    ----------
    build : callable
        Function ``build(generator) -> module`` that returns a network with initial
        weights from that generator. A network whose logits for an example depend on
        the other examples (batch normalisation), on earlier ones or on chance (dropout)
        is refused: the function computes the logits of random examples, alone and in
        company.
    images : ndarray of float32 or float64, shape [n, ...]
        Training data in the dtype that the weights should have.
    labels : ndarray of int, shape [n]
        Class codes.
    noise_multiplier : float or array_like of float, shape [n_models], >= 0
        Ratio of the standard deviation of the noise to the clipping norm, without a
        unit; an array gives one model for each entry.
    clipping_norm : float, > 0
        Largest L2 norm of an example's gradient; ``inf`` is allowed only without noise.
    steps : int, >= 1
    learning_rate : float > 0, or array_like [steps], or callable of the step 0, 1, ...
    sample_rate : float in (0, 1]
        Probability that a given row is in a batch.
    n_records : int, >= 1
        Public number of records, which scales the steps: a sum is divided by ``sample_rate
        * n_records``, the expected size of a batch. It is a constant of the caller, and
        the number of rows changes nothing but the batches. Where the number of records
        is public, this is that number, with empty records, which have no row and move
        no sum. Where it is protected (add-remove), it must not depend on the data.
    optimizer : {"sgd", "momentum", "adam"}
        Optimizer, with PyTorch's defaults for the settings that are not given here.
    momentum : float in [0, 1)
        Momentum of the optimizer ``"momentum"``.
    checkpoint : Checkpoint, optional
        See :func:`fit_networks`; an epoch is 1 / sample_rate steps. With a checkpoint,
        ``normal`` must be None, so that the noise comes from the streams of the seed.
    seed : int, >= 0
        Seed. Together with the index of a model, it gives separate streams for initial
        weights, batches and noise.
    normal : callable, optional
        Source of the noise: ``normal(size)`` returns that many standard normal numbers
        in float64, regardless of the seed and the device. By default the noise comes
        from streams of the seed.
    device : {"auto", "cpu", "cuda", ...}
        ``"auto"``: the GPU if there is one. Weights and batches are drawn on the CPU
        and noise on the device, so noisy models depend on the kind of device.

    Returns
    -------
    Networks
        Networks whose ``loss`` is the mean over the examples of the last 1 /
        sample_rate steps, before clipping and noise. The loss is not private, and it is
        NaN if all batches of these steps were empty.

    Raises
    ------
    ValueError
        If shapes disagree, an entry is not finite, a setting is out of its range, the
        network mixes examples, or training diverges: weights after a step, including
        the noise, exceed the range of the dtype.

    Source
    ------
    Abadi et al. (2016), arXiv:1607.00133, Algorithm 1, with Poisson sampling.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dpnotes.learners import convolutional_network
    >>> images, labels = load_digits().images[:, None] / 16, load_digits().target
    >>> networks = fit_dp_sgd_network(
    ...     lambda generator: convolutional_network(
    ...         (1, 8, 8), 10, channels=(16,), kernel_size=3, generator=generator
    ...     ),
    ...     images,
    ...     labels,
    ...     noise_multiplier=0.6,
    ...     clipping_norm=1.0,
    ...     sample_rate=128 / 1797,
    ...     n_records=1797,
    ...     steps=60,
    ...     learning_rate=1.0,
    ...     seed=0,
    ... )
    >>> bool((networks.votes(images) == labels).mean() > 0.8)
    True
    """
    check_data(images, labels, dtypes=("float32", "float64"))
    if checkpoint is not None and normal is not None:
        raise ValueError(
            "checkpoint must be None if normal is given, because normal cannot repeat"
            f" its draws, got normal={normal!r}"
        )
    where = choose_device(device)
    data = torch.tensor(images, device=where)
    # PyTorch wants int64 for classes
    codes = torch.tensor(np.asarray(labels, dtype=np.int64), device=where)
    settings = Settings(
        data,
        noise_multiplier=noise_multiplier,
        clipping_norm=clipping_norm,
        learning_rate=learning_rate,
        steps=steps,
        sample_rate=sample_rate,
        n_records=n_records,
        seed=seed,
        normal=normal,
        optimizer=Optimizer(optimizer, momentum),
    )
    fitted: list[dict[str, Tensor]] = []
    losses = []
    for model in range(len(settings.noise)):
        network = build(torch_generator(settings.seed, model, WEIGHTS))
        # drawn on the CPU, trained on the device
        network = network.to(where, data.dtype)
        network = network.to(memory_format=_layout(network, where))
        # has seen no example
        template = deepcopy(network).cpu().eval()
        with one_thread(), full_float32():
            # an example to see the layers at work on, none of the data
            check_network(network, torch.zeros_like(data[:1]), labels)
            loss = _train(network, data, codes, settings, model, checkpoint)
        losses.append(loss)
        named = network.named_parameters()
        fitted.append({k: value.detach().cpu().contiguous() for k, value in named})
    stacked = {
        name: torch.stack([weights[name] for weights in fitted]) for name in fitted[0]
    }
    return Networks(template, stacked, np.array(losses), images.shape[1:], device)


def _layout(network: nn.Module, device: torch.device) -> torch.memory_format:
    """How images lie in memory, where gradients of examples are found fastest."""
    # ``vmap`` copies groups of channels that do not lie together
    if any(isinstance(layer, nn.GroupNorm) for layer in network.modules()):
        return torch.contiguous_format
    return image_layout(device)


def _train(
    network: nn.Module,
    images: Tensor,
    labels: Tensor,
    settings: Settings,
    model: int,
    checkpoint: Checkpoint | None,
) -> float:
    """Train in place; give the mean loss over the examples of the last epoch."""
    trained = [value for value in network.parameters() if value.requires_grad]
    # made once for all steps
    clipped = clipped_sums(network)
    most = micro_batch_size(network, torch.zeros_like(images[:1]))
    layout = _layout(network, images.device)
    # sum of the losses in the last epoch, and number of its examples
    total, count = torch.zeros(2, dtype=torch.float64, device=images.device)
    first_of_last = len(settings.rates) - settings.epoch

    def sums(batch: Tensor, _: Tensor | None, step: int) -> list[Tensor]:
        x = images[batch[0]]
        y = labels[batch[0]]
        if x.ndim == 4:
            x = x.contiguous(memory_format=layout)
        gradients = [torch.zeros_like(value) for value in trained]
        # micro-batches of equal size, the last a little smaller
        parts = max(1, -(-len(x) // most))
        for part in slices(len(x), max(1, -(-len(x) // parts))):
            found, losses = clipped(x[part], y[part], settings.clipping_norm)
            for gradient, own in zip(gradients, found, strict=True):
                gradient += own
            if step >= first_of_last:
                total.add_(losses.sum())
                count.add_(len(losses))
        return gradients

    def digest_of_all() -> str:
        return digest(
            images,
            labels,
            repr(network),
            *network.parameters(),
            settings.seed,
            model,
            settings.noise[model],
            settings.clipping_norm,
            settings.rates,
            settings.sample_rate,
            settings.expected_batch,
            settings.optimizer,
        )

    def progress(optimizer: torch.optim.Optimizer) -> Progress:
        tensors = [*trained, total, count]
        return Progress(checkpoint, digest_of_all, tensors, optimizer)

    network.train()
    settings.descend(np.array([model]), trained, sums, progress=progress)
    network.eval()
    return float(total / count) if count else float("nan")


@dataclass(eq=False)
class Settings:
    """Checked settings: the noise of each model, and what all models share.

    Parameters
    ----------
    data : torch.Tensor, shape [n, ...]
        Rows, each of which is in a batch with probability ``sample_rate``,
        independently of all others. The clipping norm must be infinite, or one to which
        rows of any size can be scaled in their dtype.
    noise_multiplier, clipping_norm, learning_rate, steps, sample_rate, n_records, seed,
    normal
        Arguments of the caller; see :func:`fit_dp_sgd_linear`.
    optimizer : Optimizer
    n_models : int, optional
        Number of models if there is a single noise multiplier; by default one.

    Attributes
    ----------
    noise : ndarray of float64, shape [M]
        Standard deviation of the noise over the clipping norm. The norm is infinite
        only without noise.
    rates : ndarray of float64, shape [steps]
        Learning rates.
    expected_batch : float, > 0
        Public number by which a sum is divided: ``sample_rate * n_records``.
    """

    data: Tensor
    noise_multiplier: ArrayLike
    clipping_norm: float
    learning_rate: Rate
    steps: int
    sample_rate: float
    n_records: int
    seed: int
    normal: Normal | None
    optimizer: Optimizer
    n_models: int | None = None

    def __post_init__(self) -> None:
        norm = self.clipping_norm
        noise = check.array("noise_multiplier", self.noise_multiplier, finite=True)
        if noise.ndim > 1 or noise.size == 0:
            raise ValueError(
                "noise_multiplier must be a number or have shape [n_models], got shape"
                f" {noise.shape}"
            )
        if noise.ndim == 1 and self.n_models not in (None, len(noise)):
            raise ValueError(
                f"noise_multiplier has {len(noise)} entries for {self.n_models} models;"
                " give one number or one for each"
            )
        if not norm > 0:
            raise ValueError(
                f"clipping_norm must be positive, got clipping_norm={norm}"
            )
        if math.isinf(norm) and noise.any():
            raise ValueError(
                "clipping_norm=inf needs noise_multiplier=0, got"
                f" noise_multiplier={noise.max():g}: the noise is a multiple of the"
                " clipping norm, and without a finite norm no noise hides an example"
            )
        low, high = SAFE[self.data.dtype]
        if norm < math.inf and not low <= norm <= high:
            raise ValueError(
                f"clipping_norm must be in [{low:.2g}, {high:.2g}] for {self.data.dtype},"
                f" got clipping_norm={norm}"
            )
        count = len(noise) if noise.ndim else self.n_models or 1
        self.noise = np.broadcast_to(noise, (count,))
        steps = check.at_least("steps", self.steps, 1)
        self.rates = step_rates(self.learning_rate, steps)
        self.sample_rate = checked_rate(self.sample_rate)
        # a constant of the caller, which the number of rows must not decide, and may
        # exceed: where it is protected, not even an error compares the two
        records = check.at_least("n_records", self.n_records, 1)
        self.expected_batch = self.sample_rate * records
        check.at_least("seed", self.seed, 0)

    def descend(
        self,
        models: Integers,
        weights: Sequence[Tensor],
        sums: Sums,
        *,
        shared_batches: bool = False,
        progress: Callable[[torch.optim.Optimizer], Progress] | None = None,
    ) -> None:
        """Train some models in place; ``weights`` have the models together.

        Parameters
        ----------
        models : ndarray of int
            Numbers of the models, which choose their streams.
        weights : sequence of torch.Tensor
            Trained weights of all these models.
        sums : callable
            Function ``sums(batch, counts, step)`` that returns the sums of clipped
            gradients for each of the ``weights``, tensors that may be changed; see
            :func:`planned_batches`.
        shared_batches : bool
            Whether all models see the batches of model 0.
        progress : callable, optional
            Makes the progress that is saved after each epoch.
        """
        device = weights[0].device
        # of one model, so that noise is drawn for all tensors together
        sizes = [value.numel() // len(models) for value in weights]
        optimizer = self.optimizer.over(weights)
        plain = self.optimizer.kind == "sgd"
        saved = None if progress is None else progress(optimizer)
        noise = None
        multiplier = self.noise[models]
        # without noise the norm may be infinite
        if multiplier.any():
            noise = GaussianNoise(
                self.seed,
                models.tolist(),
                multiplier * self.clipping_norm,
                sum(sizes),
                device,
                self.normal,
            )
        draws = []
        for model in [0] if shared_batches else models.tolist():
            draw = dp_sgd_batches(
                len(self.data),
                sample_rate=self.sample_rate,
                seed=self.seed,
                model=model,
            )
            draws.append(draw)
        steps = len(self.rates)
        batches = planned_batches(draws, steps, self.expected_batch, device)
        done = 0 if saved is None else saved.resume()
        for step, (batch, counts) in enumerate(counted(batches, steps)):
            drawn = None if noise is None else noise.draw()
            # a run that continues draws again what it has used
            if step < done:
                continue
            gradients = sums(batch, counts, step)
            if drawn is not None:
                # drawn in float64, rounded to the dtype of the weights
                parts = torch.split(drawn.to(weights[0].dtype), sizes, dim=1)
                for gradient, part in zip(gradients, parts, strict=True):
                    gradient += part.reshape(gradient.shape)
            rate = float(self.rates[step])
            for value, gradient in zip(weights, gradients, strict=True):
                value.grad = gradient.div_(self.expected_batch)
                # of a small model, an optimizer's call would take a tenth of the time
                if plain:
                    value.detach().sub_(gradient, alpha=rate)
            if not plain:
                optimizer.param_groups[0]["lr"] = rate
                optimizer.step()
            last = step + 1 == steps
            if saved is not None and (last or (step + 1) % self.epoch == 0):
                saved.keep(step + 1, last=last)
        # Sums of clipped gradients are finite. So this depends on the records through
        # the noisy sums alone, which the guarantee covers: the error is a function of
        # what is released, like the weights.
        if not all(bool(value.isfinite().all()) for value in weights):
            raise ValueError(
                "training diverged: weights are not finite; lower"
                f" learning_rate={self.rates.max():g}"
            )

    @property
    def epoch(self) -> int:
        """Number of steps in which a record is drawn once on average."""
        return round(1 / self.sample_rate)


def planned_batches(
    draws: list[Iterator[Integers]], steps: int, expected: float, device: torch.device
) -> Iterator[tuple[Tensor, Tensor | None]]:
    """Each step's rows [len(draws), largest batch] on the device; which of them
    count, None if all do.

    Batches are drawn and sent ahead, since each transfer to a device takes long.
    """
    ahead = max(1, int(PLAN_ROWS / (len(draws) * max(expected, 1))))
    for start in range(0, steps, ahead):
        blocks = []
        counts = []
        for _ in range(min(ahead, steps - start)):
            # batches of one step, each of its own size
            drawn = [next(draw) for draw in draws]
            sizes = np.array([len(rows) for rows in drawn])
            # [len(draws), largest batch]
            count = np.arange(sizes.max()) < sizes[:, None]
            block = np.zeros(count.shape, np.int64)
            # model after model, each from the left
            block[count] = np.concatenate(drawn)
            counts.append(count)
            blocks.append(block.ravel())
        held = torch.from_numpy(np.concatenate(blocks)).to(device)
        parts = torch.split(held, [count.size for count in counts])
        for batch, count in zip(parts, counts, strict=True):
            some = None if count.all() else torch.from_numpy(count).to(device)
            yield batch.view(count.shape), some


class GaussianNoise:
    """Normal numbers for several models, float64, from a separate generator for each
    model.

    On a CPU, NumPy draws the numbers. A GPU draws its numbers itself, because a CPU
    would be too slow. The streams differ, so noisy models depend on the kind of device.
    On neither kind do a model's numbers depend on the other models. Numbers of another
    source (``normal``) are always made on the CPU.

    Parameters
    ----------
    seed : int
    models : sequence of int
        Indices of the models.
    std : ndarray of float64, shape [len(models)]
        Standard deviation of each model's numbers.
    size : int
        Count of numbers for each model and step.
    device : torch.device
    normal : callable, optional
        Source of standard normal numbers instead of the generators.
    """

    def __init__(
        self,
        seed: int,
        models: Sequence[int],
        std: Floats,
        size: int,
        device: torch.device,
        normal: Normal | None = None,
    ) -> None:
        self._device = device
        self._shape = (len(models), size)
        self._normal = normal
        self._std = torch.tensor(std, device=device)[:, None]
        self._steps = max(1, NOISE_BLOCK // size)
        self._left: list[Tensor] = []
        self._generators: list[Any] = []
        for model in models:
            if device.type == "cpu":
                bits = np.random.SFC64(stream(seed, model, NOISE))
                self._generators.append(np.random.Generator(bits))
            else:
                own = spawned_seed(seed, model, NOISE)
                self._generators.append(torch.Generator(device).manual_seed(own))

    def draw(self) -> Tensor:
        """Draw the numbers of the next step, shape [models, size]."""
        if self._normal is not None:
            numbers = torch.from_numpy(self._normal(math.prod(self._shape)))
            return numbers.view(self._shape).to(self._device).mul_(self._std)
        if self._device.type == "cpu":
            # each generator fills a row, in float64
            drawn = np.empty(self._shape)
            for generator, row in zip(self._generators, drawn, strict=True):
                generator.standard_normal(out=row)
            return torch.from_numpy(drawn).mul_(self._std)
        if not self._left:
            size = (self._steps, self._shape[1])
            kind: Any = {"dtype": torch.float64, "device": self._device}
            block = [torch.randn(size, generator=g, **kind) for g in self._generators]
            # the first step last, where it is taken from
            self._left = list(torch.stack(block, dim=1).flip(0))
        return self._left.pop().mul_(self._std)


def dp_sgd_batches(
    n: int, *, sample_rate: float, seed: int, model: int = 0
) -> Iterator[Integers]:
    """Yield the Poisson batches that :func:`fit_dp_sgd_linear` and
    :func:`fit_dp_sgd_network` draw for one model.

    Parameters
    ----------
    n : int, >= 1
        Number of rows to draw from.
    sample_rate : float in (0, 1]
    seed : int, >= 0
        Seed that the learner was given.
    model : int, >= 0
        Index of the model.

    Yields
    ------
    ndarray of int
        Positions 0..n - 1 of the rows of a batch, which can be empty; the iterator does
        not end.

    Examples
    --------
    >>> next(dp_sgd_batches(10, sample_rate=0.3, seed=1)).tolist()
    [0, 7, 4]
    """
    rate = checked_rate(sample_rate)
    generator = np.random.Generator(np.random.PCG64(stream(seed, model, BATCHES)))
    while True:
        # a binomial size, then a subset of that size: the same as n coins
        size = generator.binomial(n, rate)
        yield generator.choice(n, size, replace=False, shuffle=False)


def checked_rate(sample_rate: float) -> float:
    """Check a sample rate, which is in (0, 1]."""
    rate = check.positive("sample_rate", sample_rate)
    if rate > 1:
        raise ValueError(
            f"sample_rate must be in (0, 1], got sample_rate={sample_rate}"
        )
    return rate


def stream(seed: int, model: int, purpose: int) -> np.random.SeedSequence:
    """Random stream of one model for ``WEIGHTS``, ``BATCHES`` or ``NOISE``."""
    return np.random.SeedSequence(seed, spawn_key=(model, purpose))
