"""DP-SGD on networks, one after the other; each example's gradient is clipped over
all parameters together.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from dpnotes._validation import Features
from dpnotes.learners._checkpoints import Checkpoint, Progress, digest
from dpnotes.learners._chunks import slices
from dpnotes.learners._descent import Optimizer, Rate
from dpnotes.learners._devices import (
    choose_device,
    full_float32,
    one_thread,
    torch_generator,
)
from dpnotes.learners._dp_sgd import WEIGHTS, Normal, Settings
from dpnotes.learners._dp_sgd_clipping import Clipped, clipped_sums, micro_batch_size
from dpnotes.learners._network_initial import check_data, check_network
from dpnotes.learners._networks import Build, Networks


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
    settings = Settings(
        data,
        noise_multiplier,
        clipping_norm,
        learning_rate,
        steps,
        sample_rate,
        n_records,
        seed,
        normal,
    )
    codes = torch.tensor(np.asarray(labels, dtype=np.int64), device=where)
    job = _Job(data, codes, settings, Optimizer(optimizer, momentum), checkpoint)
    fitted: list[dict[str, Tensor]] = []
    losses: list[float] = []
    for index in range(len(job.settings.noise_multiplier)):
        network = build(torch_generator(job.settings.seed, index, WEIGHTS))
        network = network.to(where, job.images.dtype).to(
            memory_format=torch.channels_last
        )
        template = deepcopy(network).cpu().eval()  # has seen no example
        with one_thread(), full_float32():
            check_network(network, job.example, labels)
            losses.append(job.train(network, index))
        # Sums of clipped gradients are finite. So this depends on the examples through
        # the noisy sums alone, which the guarantee covers: the error is a function of
        # what is released, like the weights.
        if not all(bool(value.isfinite().all()) for value in network.parameters()):
            raise ValueError(
                f"training of model {index} diverged; lower"
                f" learning_rate={job.settings.rates.max():g}"
            )
        fitted.append(
            {
                name: value.detach().cpu().contiguous()
                for name, value in network.named_parameters()
            }
        )
    stacked = {
        name: torch.stack([weights[name] for weights in fitted]) for name in fitted[0]
    }
    return Networks(template, stacked, np.array(losses))


@dataclass(frozen=True, eq=False)
class _Job:
    """Data on the device and settings that all models share; see
    :func:`fit_dp_sgd_network`.
    """

    images: Tensor
    labels: Tensor
    settings: Settings
    optimizer: Optimizer
    checkpoint: Checkpoint | None

    @property
    def example(self) -> Tensor:
        """An example [1, ...] to see layers at work on, none of the data."""
        return torch.zeros_like(self.images[:1])

    def train(self, network: nn.Module, index: int) -> float:
        """Train in place; give the mean loss over the examples of the last epoch."""
        settings, device = self.settings, self.images.device
        named = {
            name: value
            for name, value in network.named_parameters()
            if value.requires_grad
        }
        clipped = clipped_sums(network)
        most = micro_batch_size(network, self.example)
        optimizer = self.optimizer.over(named.values())
        noise = settings.noise(
            np.array([index]), sum(value.numel() for value in named.values()), device
        )
        draws = settings.batches(index)
        steps, epoch = len(settings.rates), round(1 / settings.sample_rate)
        # over the last epoch
        total, count = torch.zeros(2, dtype=torch.float64, device=device)
        progress = Progress(
            self.checkpoint,
            lambda: self._digest(network, index),
            [*named.values(), total, count],
            optimizer,
        )
        done = progress.resume()
        network.train()
        for step, rate in enumerate(settings.rates):
            batch = torch.from_numpy(next(draws)).to(device)
            drawn = None if noise is None else noise.draw()[0].to(self.images.dtype)
            if step < done:
                continue
            x, y = self.images[batch], self.labels[batch]
            x = x.contiguous(memory_format=torch.channels_last) if x.ndim == 4 else x
            gradients = {name: torch.zeros_like(value) for name, value in named.items()}
            for losses in _add_clipped(gradients, clipped, x, y, settings.bound, most):
                if step >= steps - epoch:
                    total += losses.sum()
                    count += len(losses)
            if drawn is not None:
                parts = torch.split(
                    drawn, [gradient.numel() for gradient in gradients.values()]
                )
                for gradient, part in zip(gradients.values(), parts, strict=True):
                    gradient += part.view(gradient.shape)
            for name, value in named.items():
                value.grad = gradients[name].div_(settings.expected_batch)
            optimizer.param_groups[0]["lr"] = float(rate)
            optimizer.step()
            if (step + 1) % epoch == 0 or step + 1 == steps:
                progress.keep(step + 1, last=step + 1 == steps)
        network.eval()
        return float(total / count) if count else float("nan")

    def _digest(self, network: nn.Module, index: int) -> str:
        """Digest of all that decides the training of a model, before its first step."""
        settings = self.settings
        noise = (
            settings.seed,
            index,
            settings.noise_multiplier[index],
            settings.clipping_norm,
            settings.rates,
        )
        given = (settings.sample_rate, settings.expected_batch, self.optimizer)
        return digest(
            self.images,
            self.labels,
            repr(network),
            *network.parameters(),
            *noise,
            *given,
        )


def _add_clipped(
    gradients: dict[str, Tensor],
    clipped: Clipped,
    x: Tensor,
    y: Tensor,
    bound: float,
    most: int,
) -> Iterator[Tensor]:
    """Add the clipped gradients of a batch, at most ``most`` examples at once; give
    the losses of each part.
    """
    parts = max(1, -(-len(x) // most))
    # of equal size, the last a little smaller
    for part in slices(len(x), max(1, -(-len(x) // parts))):
        sums, losses = clipped(x[part], y[part], bound)
        for name, gradient in gradients.items():
            gradient += sums[name]
        yield losses
