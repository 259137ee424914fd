"""DP-SGD on networks, one after the other, each example's gradient clipped over all parameters together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import nn

from dpnotes import _validation as _checks
from dpnotes.learners._chunks import slices
from dpnotes.learners._devices import choose_device, one_thread
from dpnotes.learners._dp_sgd import (
    BATCHES,
    NOISE,
    WEIGHTS,
    GaussianNoise,
    Sampling,
    clipping,
    learning_rates,
    noise_multipliers,
    noise_scale,
    seed_of,
    stream,
)
from dpnotes.learners._dp_sgd_clipping import Clipped, check_examples_apart, clipped_sums, micro_batch_size
from dpnotes.learners._networks import Build, Networks
from dpnotes.learners._subsets import row_subsets

Augmentation = Callable[[torch.Tensor, torch.Generator], torch.Tensor]


def fit_dp_sgd_network(
    build: Build,
    images: NDArray[np.floating],
    labels: NDArray[np.integer],
    *,
    noise_multiplier: ArrayLike,
    clipping_norm: float,
    steps: int,
    learning_rate: ArrayLike,
    sample_rate: float | None = None,
    batch_size: int | None = None,
    subsets: NDArray[np.integer] | Sequence[ArrayLike] | None = None,
    n_repeats: int | None = None,
    optimizer: str = "sgd",
    momentum: float = 0.9,
    sampling: str = "poisson",
    initial_weights: Mapping[str, torch.Tensor] | None = None,
    augmentation: Augmentation | None = None,
    engine: str = "auto",
    micro_batch: int | None = None,
    seed: int,
    device: str = "auto",
    progress: Callable[[int, int], None] | None = None,
) -> Networks:
    """Fit networks by DP-SGD on the cross-entropy.

    In each step the gradient g of every example of the batch, over all trained parameters together, is scaled by
    exactly ``min(1, clipping_norm / |g|)``; the sum gets independent normal noise of standard deviation
    ``noise_multiplier * clipping_norm`` on each coordinate and is divided by the *expected* batch size; the optimizer
    takes it for the gradient. An empty batch is a step of noise alone. Parameters that do not require a gradient stay
    as they are and have no part in the norm.

    Parameters
    ----------
    build : callable
        ``build(generator) -> module``: a network with initial weights from that generator, without batch normalisation
        (it mixes examples) and without dropout (it draws from global state).
    images : ndarray of float32 or float64, shape [n, ...]
        Training data in the dtype that is wanted for the weights.
    labels : ndarray of int, shape [n]
        Class codes.
    noise_multiplier : float or array_like of float, shape [n_models], >= 0
        Standard deviation of the noise over the clipping norm, no unit.
    clipping_norm : float, > 0
        Largest L2 norm of an example's gradient; ``inf`` without noise only.
    steps : int, >= 1
    learning_rate : float or array_like of float, shape [steps], > 0
    sample_rate : float in (0, 1], optional
        Probability of each row to be in a batch. Give either this or ``batch_size``.
    batch_size : int, >= 1, optional
        Rows, expected with Poisson sampling (the sample rate is ``batch_size / m``), exact with shuffling.
    subsets : ndarray of int, shape [n_models, m], or sequence of index arrays, optional
        Row indices of each model, repeats allowed. Default: all rows for each model.
    n_repeats : int, >= 1, optional
        Models on all rows, where no subsets are given. Default: 1, or the entries of ``noise_multiplier``.
    optimizer : {"sgd", "momentum", "adam"}
        The settings that are not given here are PyTorch's.
    momentum : float in [0, 1)
        Of the optimizer ``"momentum"``.
    sampling : {"poisson", "shuffle"}
        See :func:`fit_dp_sgd_linear`.
    initial_weights : mapping of str to tensor, optional
        Values of some or all parameters by name to start from, the same for all models.
    augmentation : callable, optional
        ``augmentation(batch, generator) -> batch``: random changes of images [b, ...] on the device, each from its own
        image alone, drawn from that generator (on the CPU); otherwise clipping does not bound what an example does.
    engine : {"auto", "book-keeping", "vmap"}
        How clipped sums are formed; all give the same up to rounding. ``"book-keeping"`` is the fast one, for networks
        of Linear, Conv2d and GroupNorm layers, each used once; ``"vmap"`` serves any network.
    micro_batch : int, >= 1, optional
        Most examples that are taken at once. Default: from the memory at hand. Results agree up to rounding.
    seed : int, >= 0
        Model i draws initial weights, batches and noise from streams of its own, spawned from the seed and i.
    device : {"auto", "cpu", "cuda", ...}
        ``"auto"``: the GPU where there is one. Weights and batches are drawn on the CPU; noise on the device, so that
        noisy models depend on the kind of device.
    progress : callable, optional
        ``progress(done, n_models)`` after each model.

    Returns
    -------
    Networks
        Their ``loss`` is the mean over the examples of the last 1 / sample_rate steps, before clipping and noise: it is
        not private. It is NaN if all these batches were empty.

    Raises
    ------
    ValueError
        If shapes disagree, an index is out of range, an entry is not finite, a setting is out of its range, the network
        mixes examples or cannot be served by ``engine``, or training diverges.

    Source
    ------
    Abadi et al. (2016), arXiv:1607.00133, Algorithm 1, with Poisson sampling.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dpnotes.learners import convolutional_network
    >>> images, labels = load_digits().images[:, None] / 16, load_digits().target
    >>> networks = fit_dp_sgd_network(
    ...     lambda generator: convolutional_network((1, 8, 8), 10, channels=(16,), kernel_size=3, generator=generator),
    ...     images, labels, noise_multiplier=0.6, clipping_norm=1.0, batch_size=128, steps=60, learning_rate=1.0,
    ...     seed=0)
    >>> bool((networks.votes(images) == labels).mean() > 0.8)
    True
    """
    n = _check_data(images, labels)
    chosen = None if subsets is None else row_subsets(subsets, n=n)
    if chosen is not None and n_repeats is not None:
        raise ValueError(f"give either subsets or n_repeats, got {len(chosen)} subsets and n_repeats={n_repeats}")
    repeats = None if n_repeats is None else _checks.at_least("n_repeats", n_repeats, 1)
    noise = noise_multipliers(noise_multiplier, repeats if chosen is None else len(chosen))
    norm = clipping(clipping_norm, noise)
    rates = learning_rates(learning_rate, _checks.at_least("steps", steps, 1))
    seed = _checks.at_least("seed", seed, 0)
    micro = None if micro_batch is None else _checks.at_least("micro_batch", micro_batch, 1)
    if not 0 <= momentum < 1:
        raise ValueError(f"momentum must be in [0, 1), got momentum={momentum}")
    ends = [n] if chosen is None else np.cumsum(chosen.sizes)
    rows = [np.arange(n)] * len(noise) if chosen is None else np.split(chosen.indices, ends[:-1])
    samples = [
        Sampling.checked(len(own), sampling=sampling, sample_rate=sample_rate, batch_size=batch_size) for own in rows
    ]
    where = choose_device(device)
    all_images = torch.tensor(images, device=where)
    all_labels = torch.tensor(np.asarray(labels, dtype=np.int64), device=where)
    fitted: list[dict[str, torch.Tensor]] = []
    losses: list[float] = []
    for index, (own, sample, scale) in enumerate(zip(rows, samples, noise_scale(noise, norm), strict=True)):
        network = build(torch.Generator().manual_seed(seed_of(stream(seed, index, WEIGHTS))))
        network = network.to(where, all_images.dtype).to(memory_format=torch.channels_last)
        _load(network, initial_weights or {})
        check_examples_apart(network)
        trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
        if not trained:
            raise ValueError("build gives a network without any parameter that requires a gradient: nothing to train")
        size = sum(parameter.numel() for parameter in trained)
        _check_labels(network, all_images[:1], labels)
        clipped = clipped_sums(network, engine, all_images[:1])
        with one_thread():
            loss = _train(
                network,
                clipped,
                _optimizer(optimizer, trained, momentum),
                all_images,
                all_labels,
                rows=own,
                sample=sample,
                batches=stream(seed, index, BATCHES),
                noise=GaussianNoise([stream(seed, index, NOISE)], size, where) if scale else None,
                scale=float(scale),
                clipping_norm=norm,
                rates=rates,
                augmentation=augmentation,
                micro_batch=micro or micro_batch_size(network, all_images[:1]),
            )
        if not all(bool(value.isfinite().all()) for value in network.parameters()):
            raise ValueError(f"training of model {index} diverged; lower learning_rate={rates.max():g}")
        fitted.append({name: value.detach().cpu().contiguous() for name, value in network.named_parameters()})
        losses.append(loss)
        if progress is not None:
            progress(index + 1, len(rows))
    stacked = {name: torch.stack([weights[name] for weights in fitted]) for name in fitted[0]}
    return Networks(deepcopy(network).eval(), stacked, np.array(losses))


def _train(
    network: nn.Module,
    clipped: Clipped,
    optimizer: torch.optim.Optimizer,
    images: torch.Tensor,
    labels: torch.Tensor,
    *,
    rows: NDArray[np.int64],
    sample: Sampling,
    batches: np.random.SeedSequence,
    noise: GaussianNoise | None,
    scale: float,
    clipping_norm: float,
    rates: NDArray[np.float64],
    augmentation: Augmentation | None,
    micro_batch: int,
) -> float:
    """Train in place; give the mean loss over the examples of the last epoch."""
    trained = {name: value for name, value in network.named_parameters() if value.requires_grad}
    draw, changes = sample.batches(len(rows), batches), torch.Generator().manual_seed(seed_of(batches))
    epoch = min(len(rates), round(1 / sample.sample_rate))
    total, count = torch.zeros((), dtype=torch.float64, device=images.device), 0
    network.train()
    for step, rate in enumerate(rates):
        batch = torch.from_numpy(rows[next(draw)]).to(images.device)
        x, y = images[batch], labels[batch]
        if augmentation is not None and len(batch):
            x = augmentation(x, changes)
        if x.ndim == 4:
            x = x.contiguous(memory_format=torch.channels_last)
        pieces = max(1, -(-len(batch) // micro_batch))
        piece = max(1, -(-len(batch) // pieces))  # of equal size, the last a little smaller
        gradients = {name: torch.zeros_like(value) for name, value in trained.items()}
        for part in slices(len(batch), piece):
            sums, losses = clipped(x[part], y[part], clipping_norm)
            for name, gradient in gradients.items():
                gradient += sums[name]
            if step >= len(rates) - epoch:
                total += losses.sum()
                count += len(losses)
        if noise is not None:
            drawn = (noise.draw()[0] * scale).to(images.dtype)
            shares = torch.split(drawn, [gradient.numel() for gradient in gradients.values()])
            for gradient, share in zip(gradients.values(), shares, strict=True):
                gradient += share.view(gradient.shape)
        for name, value in trained.items():
            value.grad = gradients[name].div_(sample.expected_batch)
        optimizer.param_groups[0]["lr"] = float(rate)
        optimizer.step()
    network.eval()
    return float(total) / count if count else float("nan")


def _optimizer(name: str, trained: list[nn.Parameter], momentum: float) -> torch.optim.Optimizer:
    if name == "adam":
        return torch.optim.Adam(trained, fused=True)
    if name in ("sgd", "momentum"):
        return torch.optim.SGD(trained, lr=1.0, momentum=momentum if name == "momentum" else 0.0, fused=True)
    raise ValueError(f"optimizer must be 'sgd', 'momentum' or 'adam', got optimizer={name!r}")


@torch.no_grad()
def _load(network: nn.Module, initial_weights: Mapping[str, torch.Tensor]) -> None:
    named = dict(network.named_parameters())
    for name, value in initial_weights.items():
        if name not in named:
            raise ValueError(f"initial_weights names {name!r}, the network has {', '.join(named)}")
        if value.shape != named[name].shape:
            raise ValueError(
                f"initial_weights[{name!r}] must have shape {tuple(named[name].shape)}, got {tuple(value.shape)}"
            )
        if not value.isfinite().all():
            raise ValueError(f"initial_weights[{name!r}] must be finite")
        named[name].copy_(value)


@torch.no_grad()
def _check_labels(network: nn.Module, example: torch.Tensor, labels: NDArray[np.integer]) -> None:
    n_classes = network(example).shape[1]
    if labels.max() >= n_classes:
        raise ValueError(f"labels must hold class codes in 0..{n_classes - 1}, the network's, got {labels.max()}")


def _check_data(images: NDArray[np.floating], labels: NDArray[np.integer]) -> int:
    if images.dtype not in (np.float32, np.float64):
        raise ValueError(f"images must be float32 or float64, got {images.dtype}")
    if np.shape(labels) != (len(images),):
        raise ValueError(f"images and labels must have equal length, got {len(images)} and shape {np.shape(labels)}")
    if not len(images):
        raise ValueError("images must hold at least one image, got none")
    if labels.dtype.kind not in "iu" or labels.min() < 0:
        raise ValueError(f"labels must hold class codes >= 0, got {labels.dtype} from {labels.min()}")
    if not np.isfinite(images).all():
        raise ValueError(f"images must be finite, got {int((~np.isfinite(images)).sum())} bad entries")
    return len(images)
