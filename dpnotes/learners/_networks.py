"""Train one network for each subset of the rows, and let all of them vote."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy

QUERY_ROWS = 2048  # rows of one forward pass when predicting: a few MB of activations

Build = Callable[[torch.Generator], nn.Module]


class Networks:
    """Trained networks of one architecture.

    Attributes
    ----------
    parameters : dict of str to torch.Tensor
        Weights of all models by name, with the leading axis [n_models, ...], on the CPU.
    loss : ndarray of float64, shape [n_models]
        Mean training loss over the last epoch, in nats.
    """

    def __init__(self, template: nn.Module, parameters: dict[str, torch.Tensor], loss: NDArray[np.float64]) -> None:
        self._template = template
        self.parameters = parameters
        self.loss = loss

    def __len__(self) -> int:
        return len(self.loss)

    def logits(self, images: NDArray[np.floating], *, device: str = "auto") -> NDArray[np.floating]:
        """Logits of all models: images [n, ...] in, [n_models, n, n_classes] out, in the parameters' dtype."""
        return np.stack([self._one(i, images, device).numpy() for i in range(len(self))])

    def votes(self, images: NDArray[np.floating], *, device: str = "auto") -> NDArray[np.int64]:
        """Class code with the largest logit, for all models: images [n, ...] in, [n_models, n] out."""
        return np.stack([self._one(i, images, device).argmax(1).numpy() for i in range(len(self))])

    @torch.no_grad()
    def _one(self, index: int, images: NDArray[np.floating], device: str) -> torch.Tensor:
        where = choose_device(device)
        weights = {name: value[index].to(where) for name, value in self.parameters.items()}
        dtype = next(iter(weights.values())).dtype
        chunks = (images[start : start + QUERY_ROWS] for start in range(0, len(images), QUERY_ROWS))
        tensors = (torch.tensor(chunk, dtype=dtype, device=where) for chunk in chunks)
        return torch.cat([functional_call(self._template, weights, (tensor,)).cpu() for tensor in tensors])


def fit_networks(
    build: Build,
    images: NDArray[np.floating],
    labels: NDArray[np.integer],
    subsets: NDArray[np.integer],
    *,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    optimizer: str = "adam",
    seed: int,
    device: str = "auto",
    progress: Callable[[int, int], None] | None = None,
) -> Networks:
    """Fit one network to each subset by mini-batch descent on the cross-entropy.

    Every epoch goes once through the subset in a fresh random order; the last batch of an epoch may be smaller. Model i
    draws its initial weights and its orders from a stream of its own, spawned from the seed and i, on the CPU: the
    result depends neither on the other models nor, up to rounding, on the device. Models are trained one after the
    other, the fastest way on a CPU, where the library's convolution is bound by arithmetic already.

    Parameters
    ----------
    build : callable
        ``build(generator) -> module``: a network with initial weights from that generator. Its buffers, if it has any,
        are not kept apart between models.
    images : ndarray of float32 or float64, shape [n, ...]
        Training data in the dtype that is wanted for the weights.
    labels : ndarray of int, shape [n]
        Class codes 0 to n_classes - 1.
    subsets : ndarray of int, shape [n_models, m]
        Row indices of each model; repeats allowed.
    epochs : int, >= 1
    batch_size : int, >= 1
        Rows.
    learning_rate : float, > 0
    optimizer : {"adam", "momentum"}
        Adam, or stochastic gradient descent with momentum 0.9; the other settings are PyTorch's.
    seed : int, >= 0
    device : {"auto", "cpu", "cuda", ...}
        ``"auto"``: the GPU where there is one.
    progress : callable, optional
        ``progress(done, n_models)`` after each model.

    Returns
    -------
    Networks

    Raises
    ------
    ValueError
        If shapes disagree, an index or label is out of range, an entry is not finite, a setting is out of its range, or
        training diverges (the loss is not finite).
    """
    _check(images, labels, subsets, epochs=epochs, batch_size=batch_size, learning_rate=learning_rate)
    where = choose_device(device)
    dtype = torch.float32 if images.dtype == np.float32 else torch.float64
    fitted: list[dict[str, torch.Tensor]] = []
    losses: list[float] = []
    template = None
    for index, rows in enumerate(np.asarray(subsets, dtype=np.int64)):
        stream = np.random.SeedSequence(seed, spawn_key=(index,))
        generator = torch.Generator().manual_seed(int(stream.generate_state(1, np.uint64)[0] >> np.uint64(1)))
        network = build(generator).to(where, dtype).to(memory_format=torch.channels_last)
        with _one_thread():
            loss = _train(
                network,
                torch.tensor(images[rows], device=where),
                torch.tensor(labels[rows], dtype=torch.int64, device=where),
                _optimizer(optimizer, network, learning_rate),
                epochs=epochs,
                batch_size=batch_size,
                generator=generator,
            )
        if not np.isfinite(loss):
            raise ValueError(f"training of model {index} diverged (loss {loss}); lower learning_rate={learning_rate}")
        fitted.append({name: value.detach().cpu().contiguous() for name, value in network.named_parameters()})
        losses.append(loss)
        template = template or deepcopy(network)
        if progress is not None:
            progress(index + 1, len(subsets))
    assert template is not None  # subsets are not empty
    stacked = {name: torch.stack([weights[name] for weights in fitted]) for name in fitted[0]}
    return Networks(template, stacked, np.array(losses))


def device_name(device: str) -> str:
    """What the device of that name is: ``"cpu"``, or the model of the GPU."""
    chosen = choose_device(device)
    return torch.cuda.get_device_name(chosen) if chosen.type == "cuda" else chosen.type


def choose_device(device: str) -> torch.device:
    """The device of that name; ``"auto"`` takes the GPU where there is one."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    chosen = torch.device(device)
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device={device!r} is not there: PyTorch sees no GPU; use 'auto' or 'cpu'")
    return chosen


@contextmanager
def _one_thread() -> Iterator[None]:
    """One CPU thread for PyTorch: batches of a small network are too short to share, and cost much more on a busy core.

    Several models are trained at once by several processes, each with one thread.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _train(
    network: nn.Module,
    x: torch.Tensor,
    y: torch.Tensor,
    optimizer: torch.optim.Optimizer,
    *,
    epochs: int,
    batch_size: int,
    generator: torch.Generator,
) -> float:
    """Train in place; give the mean loss over the last epoch."""
    network.train()
    total = torch.zeros((), dtype=torch.float64)
    for _ in range(epochs):
        total = torch.zeros((), dtype=torch.float64, device=x.device)
        for batch in torch.split(torch.randperm(len(x), generator=generator).to(x.device), batch_size):
            optimizer.zero_grad(set_to_none=True)
            loss = cross_entropy(network(x[batch]), y[batch])
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            total += loss.detach() * len(batch)
    network.eval()
    return float(total) / len(x)


def _optimizer(name: str, network: nn.Module, learning_rate: float) -> torch.optim.Optimizer:
    if name == "adam":
        return torch.optim.Adam(network.parameters(), lr=learning_rate, fused=True)
    if name == "momentum":
        return torch.optim.SGD(network.parameters(), lr=learning_rate, momentum=0.9, fused=True)
    raise ValueError(f"optimizer must be 'adam' or 'momentum', got optimizer={name!r}")


def _check(
    images: NDArray[np.floating],
    labels: NDArray[np.integer],
    subsets: NDArray[np.integer],
    *,
    epochs: int,
    batch_size: int,
    learning_rate: float,
) -> None:
    n = len(images)
    if len(labels) != n:
        raise ValueError(f"images and labels must have equal length, got {n} and {len(labels)}")
    if images.dtype not in (np.float32, np.float64):
        raise ValueError(f"images must be float32 or float64, got {images.dtype}")
    if not np.isfinite(images).all():
        raise ValueError(f"images must be finite, got {int((~np.isfinite(images)).sum())} bad entries")
    if np.ndim(subsets) != 2 or 0 in np.shape(subsets):
        raise ValueError(f"subsets must have shape [n_models >= 1, m >= 1], got shape {np.shape(subsets)}")
    if subsets.min() < 0 or subsets.max() >= n:
        raise ValueError(f"subsets must hold row indices in 0..{n - 1}, got {subsets.min()}..{subsets.max()}")
    for name, value in (("epochs", epochs), ("batch_size", batch_size)):
        if value < 1:
            raise ValueError(f"{name} must be >= 1, got {name}={value}")
    if not 0 < learning_rate < float("inf"):
        raise ValueError(f"learning_rate must be positive and finite, got learning_rate={learning_rate}")
