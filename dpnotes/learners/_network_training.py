"""Training of networks: checks of data and layers, initial weights, and mini-batch
descent, one model after the other or many in one tensor program, with the same draws.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call, vjp, vmap
from torch.nn.functional import cross_entropy, pad

from dpnotes import _validation as check
from dpnotes._progress import counted
from dpnotes._validation import Floats, Integers
from dpnotes.learners._descent import Checkpoint, Optimizer, Progress, digest
from dpnotes.learners._devices import (
    chunk_size,
    free_bytes,
    image_layout,
    slices,
)

PADDING = 4  # pixels on each side
OFFSETS = 2 * PADDING + 1  # places of the crop along one side
KINDS = 2 * OFFSETS**2  # mirrored or not, vertical and horizontal place
Weights = dict[str, Tensor]
Gradients = Callable[[Weights, Weights, Tensor, Tensor, Tensor], tuple[Weights, Tensor]]
# from rows [M, b], their augmentation and the number of the batch; sets gradients and
# gives what sums up losses [M]
Step = Callable[[Tensor, Tensor | None, int], Callable[[], Tensor]]
ELEMENTWISE = (nn.ReLU, nn.LeakyReLU, nn.ELU, nn.GELU, nn.SiLU, nn.Sigmoid, nn.Tanh)
ENGINES = ("auto", "loop", "batched")
COMPANY = 4  # examples, of which one is looked at
MIXED = (
    "for an example depend on the other examples of its batch, as with batch"
    " normalisation; use GroupNorm"
)
CHANCE = (
    "for an example differ from call to call, as with dropout or a layer that remembers"
    " examples; leave it out"
)
# at least at once on a CPU: a step costs 0.2 or 1 ms beside the arithmetic
CHAIN_MODELS = 16
OTHER_MODELS = 64
GPU_BATCH = 512  # rows of one model's batch that fill a GPU by themselves


def draw_crop_flips(n: int, generator: torch.Generator) -> Tensor:
    """Draw the kinds of :func:`apply_crop_flips` for n images: int64 below
    ``KINDS``, shape [n], on the CPU.
    """
    return torch.randint(KINDS, (n,), generator=generator)


def apply_crop_flips(images: Tensor, kinds: Tensor) -> Tensor:
    """Crop and mirror images [n, channels, height, width] by their drawn ``kinds`` [n],
    on the same device.

    Kind ``(mirrored * 9 + top) * 9 + left`` is the crop whose upper left corner lies
    ``top`` and ``left`` pixels into the padded image; ``(0 * 9 + 4) * 9 + 4`` does not
    change the image.
    """
    # place by place, from the kind
    height, width = images.shape[2:]
    places = kinds // OFFSETS
    left = kinds % OFFSETS
    mirrored = places // OFFSETS
    top = places % OFFSETS
    # [n, channels, 9, 9, height, width]
    windows = pad(images, (PADDING,) * 4).unfold(2, height, 1).unfold(3, width, 1)
    # [n, channels, height, width]
    crops = windows[torch.arange(len(images), device=images.device), :, top, left]
    return torch.where(mirrored.bool()[:, None, None, None], crops.flip(3), crops)


def stacked_gradients(template: nn.Module) -> Gradients:
    """Return a function of trained and fixed weights, x, targets and row weights that
    gives gradients and logits.

    The M networks are stacked and have the architecture of ``template``. Trained and
    fixed weights [M, ...] are given by name, x is [M, b, ...], and targets [M, b,
    n_classes] are one-hot. The row weights [M, b] are the weights of rows in each
    model's mean. Gradients [M, ...] are for the trained weights; logits are [M, b,
    n_classes]. Batched matrix products differentiate a chain of fully connected layers;
    ``torch.func``, which costs about 1 ms a call, differentiates any other network.
    """
    return _of_chain(template) if is_chain(template) else _of_any(template)


def is_chain(network: nn.Module) -> bool:
    """Whether the network is a sequence of fully connected and elementwise layers,
    which may begin with flattening.
    """
    if type(network) is not nn.Sequential:
        return False
    # the first may be a flattening of whole examples
    layers = list(network)
    if layers and type(layers[0]) is nn.Flatten:
        flatten = layers.pop(0)
        if flatten.start_dim != 1 or flatten.end_dim != -1:
            return False
    if not all(type(layer) in (nn.Linear, *ELEMENTWISE) for layer in layers):
        return False
    found = []
    for layer in layers:
        found += [id(parameter) for parameter in layer.parameters()]
    # at least one, and none in two layers
    return bool(found) and len(found) == len(set(found))


def _of_chain(template: nn.Module) -> Gradients:
    # by name, as the weights are
    layers = dict(template.named_children())

    def gradients(
        trained: Weights, fixed: Weights, x: Tensor, targets: Tensor, weight: Tensor
    ) -> tuple[Weights, Tensor]:
        leaves = {k: value.detach().requires_grad_() for k, value in trained.items()}
        values = {**leaves, **fixed}
        # [M, d, b]: rows last, so that the gradient of a weight lies in memory as the
        # weight does
        h = x.flatten(2).mT
        for name, layer in layers.items():
            if isinstance(layer, nn.Linear):
                W = values[f"{name}.weight"]
                bias = values.get(f"{name}.bias")
                # [M, units, b]
                h = W @ h if bias is None else torch.baddbmm(bias[:, :, None], W, h)
            elif not isinstance(layer, nn.Flatten):
                h = layer(h)
        # the derivative of cross-entropy
        error = (torch.softmax(h.detach(), 1) - targets.mT) * weight[:, None]
        found = torch.autograd.grad(h, list(leaves.values()), error)
        return dict(zip(leaves, found, strict=True)), h.detach().mT

    return gradients


def _of_any(template: nn.Module) -> Gradients:
    def gradients(
        trained: Weights, fixed: Weights, x: Tensor, targets: Tensor, weight: Tensor
    ) -> tuple[Weights, Tensor]:
        logits, back, *_ = vjp(
            lambda own: functional_call(template, {**own, **fixed}, (x,)), trained
        )
        # classes first: ten times faster on a CPU
        probabilities = torch.softmax(logits.T.contiguous(), 0).T
        # the derivative of cross-entropy; nobody differentiates the gradient again
        with torch.no_grad():
            (found,) = back((probabilities - targets) * weight[:, None])
        return found, logits

    return vmap(gradients)


@dataclass(frozen=True, eq=False)
class Start:
    """One model before training.

    Parameters
    ----------
    network : torch.nn.Module
        Network with initial weights, on the CPU.
    rows : torch.Tensor of int64, shape [m], on the CPU
        Rows of ``Training.images`` that the model is trained on.
    orders, changes : torch.Generator
        Sources of the order of the rows and of augmentation.
    """

    network: nn.Module
    rows: Tensor
    orders: torch.Generator
    changes: torch.Generator

    def digest(self) -> str:
        """Digest of all fields."""
        network = repr(self.network), *self.network.parameters()
        return digest(self.rows, *network, self.orders, self.changes)


@dataclass(frozen=True, eq=False)
class Training:
    """Data and settings that all models share.

    Parameters
    ----------
    images : torch.Tensor of float32, float64 or uint8, shape [n, ...]
    labels : torch.Tensor of int64, shape [n], on the same device
    n_classes : int
    dtype : torch.dtype
        Dtype of weights, and of images as inputs of the network.
    batch_size : int
    rates : ndarray of float64, shape [epochs]
        Learning rates.
    optimizer : Optimizer
    augmentation : None or "crop-flip"
    checkpoint : Checkpoint, optional
    """

    images: Tensor
    labels: Tensor
    n_classes: int
    dtype: torch.dtype
    batch_size: int
    rates: Floats
    optimizer: Optimizer
    augmentation: str | None
    checkpoint: Checkpoint | None = None

    def __post_init__(self) -> None:
        if self.augmentation not in (None, "crop-flip"):
            raise ValueError(
                "augmentation must be None or 'crop-flip', got"
                f" augmentation={self.augmentation!r}"
            )
        # pictures have three axes beside that of examples
        if self.augmentation and self.images.ndim != 4:
            raise ValueError(
                "augmentation='crop-flip' needs images [n, channels, height, width],"
                f" got {self.images.ndim} axes"
            )

    @cached_property
    def digest(self) -> str:
        """Digest of data and settings."""
        settings = (
            self.n_classes,
            self.dtype,
            self.batch_size,
            self.optimizer,
            self.augmentation,
        )
        return digest(self.images, self.labels, self.rates, *settings)

    def take(self, rows: Tensor, kinds: Tensor | None) -> Tensor:
        """Images of ``rows`` [..., b], augmented by ``kinds`` [..., b], as inputs of
        the network.
        """
        # copies whole rows, twice as fast as an index
        images = self.images.index_select(0, rows.flatten())
        images = images if kinds is None else apply_crop_flips(images, kinds.flatten())
        return as_pixels(images, self.dtype).view(*rows.shape, *images.shape[1:])

    def batches(
        self, orders: Tensor, kinds: Tensor | None
    ) -> Iterator[tuple[Tensor, Tensor | None]]:
        """Rows of each batch of an epoch with these orders [..., m], and their
        augmentation, both on the device.
        """
        where = self.images.device
        size = self.batch_size
        rows = torch.split(orders.to(where), size, dim=-1)
        if kinds is None:
            return ((batch, None) for batch in rows)
        return zip(rows, torch.split(kinds.to(where), size, dim=-1), strict=True)


def train(
    starts: Sequence[Start], training: Training, engine: str
) -> tuple[Weights, Floats]:
    """Train models that have equally many batches in an epoch; return parameters and
    mean losses, on the CPU.

    The engine makes a :data:`Step` of the models, and everything else is the same for
    one model and for many models. Parameters have a leading axis of models if models
    are trained together; losses [M] are means over the last epoch.
    """
    if engine == "loop":
        parameters, trained, step = _alone(starts[0], training)
    else:
        parameters, trained, step = _together(starts, training)
    where = training.images.device
    sizes = torch.tensor([len(start.rows) for start in starts])
    losses = torch.zeros(len(starts), dtype=torch.float64, device=where)
    optimizer = training.optimizer.over(trained)
    epochs = len(training.rates)
    tensors = [*parameters.values(), losses]

    def digest_of_all() -> str:
        return digest(
            training.digest,
            [start.digest() for start in starts],
            [value.shape for value in tensors],
        )

    progress = Progress(training.checkpoint, digest_of_all, tensors, optimizer)
    done = progress.resume()
    for epoch, rate in enumerate(counted(training.rates, epochs)):
        drawn = _epoch(starts, training.augmentation, longest=int(sizes.max()))
        # a run that continues draws again what it has used
        if epoch < done:
            continue
        optimizer.param_groups[0]["lr"] = float(rate)
        for number, (rows, changes) in enumerate(training.batches(*drawn)):
            loss = step(rows, changes, number)
            optimizer.step()
            if epoch == epochs - 1:
                losses += loss()
        progress.keep(epoch + 1, last=epoch + 1 == epochs)
    final = {k: value.detach().cpu().contiguous() for k, value in parameters.items()}
    return final, (losses.cpu() / sizes).numpy()


def _alone(start: Start, training: Training) -> tuple[Weights, list[Tensor], Step]:
    """Parameters of one network, those that are trained, and its step by PyTorch's
    own differentiation.
    """
    where = training.images.device
    # where its convolutions are fastest
    network = start.network.to(where).to(memory_format=image_layout(where)).train()
    trained: list[Tensor] = [p for p in network.parameters() if p.requires_grad]

    def step(rows: Tensor, changes: Tensor | None, number: int) -> Callable[[], Tensor]:
        # gradients are not added to those of the step before
        for parameter in trained:
            parameter.grad = None
        logits = network(training.take(rows, changes).flatten(0, 1))
        loss = cross_entropy(logits, training.labels[rows.flatten()])
        loss.backward()  # type: ignore[no-untyped-call]
        return lambda: loss.detach() * rows.numel()

    return dict(network.named_parameters()), trained, step


def _together(
    starts: Sequence[Start], training: Training
) -> tuple[Weights, list[Tensor], Step]:
    """Parameters [M, ...] of networks of one architecture, those that are trained, and
    their step in one program.

    The last batch of an epoch is filled up to the longest with rows of weight 0.
    """
    where = training.images.device
    template = starts[0].network.to(where).train()
    named = [dict(start.network.named_parameters()) for start in starts]
    stacked: Weights = {}
    trained: Weights = {}
    fixed: Weights = {}
    for name, own in named[0].items():
        # the first is on the device already, the others where they were drawn
        each = [one[name].detach().cpu() for one in named]
        stacked[name] = torch.stack(each).to(where)
        part = trained if own.requires_grad else fixed
        part[name] = stacked[name]
    sizes = torch.tensor([len(start.rows) for start in starts])
    # [M, longest]
    counts = (torch.arange(int(sizes.max())) < sizes[:, None]).to(training.dtype)
    batches = torch.split(counts, training.batch_size, dim=1)
    # of rows in the mean over a batch
    weights = [(batch / batch.sum(1, keepdim=True)).to(where) for batch in batches]
    one_hot = torch.eye(training.n_classes, dtype=training.dtype, device=where)
    gradients_of = stacked_gradients(template)

    def step(rows: Tensor, changes: Tensor | None, number: int) -> Callable[[], Tensor]:
        x = training.take(rows, changes)
        y = training.labels[rows]
        weight = weights[number]
        gradients, logits = gradients_of(trained, fixed, x, one_hot[y], weight)
        for name, value in trained.items():
            # the fused optimizer takes entries in storage order
            value.grad = gradients[name].contiguous()

        def losses() -> Tensor:
            flat = logits.flatten(0, 1), y.flatten()
            each = cross_entropy(*flat, reduction="none").view(rows.shape)
            # padding does not count
            return (each * (weight > 0)).sum(1)

        return losses

    return stacked, list(trained.values()), step


def _epoch(
    starts: Sequence[Start], augmentation: str | None, *, longest: int
) -> tuple[Tensor, Tensor | None]:
    """Rows of the next epoch and their augmentation [M, longest], filled up with
    each model's first row, unchanged.
    """
    # padding is a row that exists
    orders = torch.stack([start.rows[:1].expand(longest) for start in starts])
    kinds = torch.zeros_like(orders)
    for order, kind, start in zip(orders, kinds, starts, strict=True):
        size = len(start.rows)
        drawn = torch.randperm(size, generator=start.orders)
        order[:size] = start.rows[drawn]
        if augmentation is not None:
            kind[:size] = draw_crop_flips(size, start.changes)
    return orders, None if augmentation is None else kinds


def as_pixels(images: Tensor, dtype: torch.dtype) -> Tensor:
    """Convert images to the input of a network: bytes divided by 255, all in
    ``dtype``.
    """
    pixels = images.to(dtype)
    return pixels.div_(255) if images.dtype == torch.uint8 else pixels


def choose_engine(
    engine: str,
    network: nn.Module,
    device: torch.device,
    *,
    n_models: int,
    batch_size: int,
) -> str:
    """Choose the engine of :func:`fit_networks`: ``"loop"``, one model after the other,
    or ``"batched"``, all at once.

    Parameters
    ----------
    engine : {"auto", "loop", "batched"}
        Requested engine. ``"auto"`` takes the loop for one model, for convolutions on a
        CPU (arithmetic already limits them, and batching is slower) and for batches
        that fill a GPU.
    network : torch.nn.Module
    device : torch.device
    n_models, batch_size : int

    Returns
    -------
    str
        ``"loop"`` or ``"batched"``.
    """
    # a choice of the caller is kept
    if check.one_of("engine", engine, ENGINES) != "auto":
        return engine
    if n_models == 1 or batch_size >= GPU_BATCH:
        return "loop"
    return "loop" if device.type == "cpu" and has_convolutions(network) else "batched"


def has_convolutions(network: nn.Module) -> bool:
    """Whether a layer of the network is a convolution."""
    convolutions = nn.Conv1d | nn.Conv2d | nn.Conv3d
    return any(isinstance(layer, convolutions) for layer in network.modules())


def model_bytes(
    network: nn.Module, example: Tensor, n_activations: int, *, batch_size: int
) -> int:
    """Bytes of one model while it is trained: weights, gradients, moments, and a
    batch, forward and backward.
    """
    parameters = sum(parameter.numel() for parameter in network.parameters())
    each = 2 * example.numel() + 3 * n_activations
    return example.itemsize * (5 * parameters + batch_size * each)


def groups(
    sizes: Integers,
    engine: str,
    network: nn.Module,
    bytes_per_model: int,
    device: torch.device,
    *,
    batch_size: int,
    chunk: int | None,
) -> list[Integers]:
    """Models that are trained at once: single models in the loop, else models with
    equally many batches in an epoch.
    """
    if engine == "loop":
        return list(np.arange(len(sizes))[:, None])
    least = 1
    n_threads = None
    # the training takes one thread, and its calls take their time for any number of
    # models
    if chunk is None and device.type == "cpu":
        by_memory = free_bytes(device) // (2 * bytes_per_model)
        least = min(CHAIN_MODELS if is_chain(network) else OTHER_MODELS, by_memory)
        n_threads = 1
    # models step together, so they need equally many steps
    batches = -(-sizes // batch_size)
    found = []
    for count in np.unique(batches):
        models = np.flatnonzero(batches == count)
        at_once = chunk_size(
            len(models), bytes_per_model, device, chunk=chunk, n_threads=n_threads
        )
        if at_once < least:
            at_once = -(-len(models) // -(-len(models) // least))
        found += [models[part] for part in slices(len(models), at_once)]
    return found


def check_data(
    images: NDArray[Any], labels: NDArray[np.integer], *, dtypes: tuple[str, ...]
) -> None:
    """Raise an error for images and labels that do not fit each other or are not
    suitable numbers.
    """
    if len(labels) != len(images):
        raise ValueError(
            f"images and labels must have equal length, got {len(images)} and"
            f" {len(labels)}"
        )
    if not len(images):
        raise ValueError("images must hold at least one image, got none")
    if images.dtype.name not in dtypes:
        raise ValueError(
            f"images must be {', '.join(dtypes[:-1])} or {dtypes[-1]}, got"
            f" {images.dtype}"
        )
    if np.ndim(labels) != 1 or labels.dtype.kind not in "iu":
        raise ValueError(
            f"labels must hold class codes, shape [n], got {labels.dtype} of shape"
            f" {np.shape(labels)}"
        )
    if images.dtype != np.uint8 and not np.isfinite(images).all():
        raise ValueError(
            f"images must be finite, got {int((~np.isfinite(images)).sum())} bad"
            " entries"
        )


def check_buffers(network: nn.Module) -> None:
    """Raise an error for buffers, which several models of one tensor program would
    share.
    """
    for name, _ in network.named_buffers():
        raise ValueError(
            f"build gives a network with the buffer {name!r}, which is not separate"
            " between models; make it a parameter or a constant"
        )


@torch.no_grad()
def try_example(network: nn.Module, example: Tensor) -> tuple[int, int]:
    """Check the logits of one example [1, ...]; return the number of classes and the
    number of values of all layers.
    """
    counts: list[int] = []

    def count(_layer: nn.Module, _inputs: object, output: Tensor) -> None:
        counts.append(output.numel())

    handles = []
    for layer in network.modules():
        if not any(layer.children()):
            handles.append(layer.register_forward_hook(count))
    try:
        logits = network(example)
    finally:
        for handle in handles:
            handle.remove()
    if logits.ndim != 2 or len(logits) != 1:
        raise ValueError(
            "build must give a network with logits [n, n_classes], got shape"
            f" {tuple(logits.shape)} for one example"
        )
    return logits.shape[1], sum(counts)


@torch.no_grad()
def check_alone(network: nn.Module, example: Tensor) -> None:
    """Raise an error if the logits for an example depend on more than the example.

    Batch normalisation mixes examples, other layers remember earlier ones, and dropout
    draws from global random state. None is looked for by its name: the function
    computes the logits of random examples, alone, in company and alone again, both
    while training and not. Of ``example`` [1, ...] it uses the shape, the dtype and the
    device.
    """
    shape = COMPANY, *example.shape[1:]
    generator = torch.Generator().manual_seed(0)
    examples = torch.rand(shape, dtype=example.dtype, generator=generator)
    examples = examples.to(example.device)
    training = network.training
    # rounding depends on the size of a batch
    tolerance = torch.finfo(example.dtype).eps ** 0.5
    for mode in (True, False):
        network.train(mode)
        try:
            alone = network(examples[:1])
            together = network(examples)
            again = network(examples[:1])
        except ValueError as error:
            raise ValueError(
                "build gives a network that cannot compute the logits of an example"
                f" alone: {error}"
            ) from error
        room = tolerance * float(together.abs().max())
        for other, what in ((again, CHANCE), (together[:1], MIXED)):
            if not torch.allclose(alone, other, rtol=0, atol=room, equal_nan=True):
                raise ValueError(f"build gives a network whose logits {what}")
    network.train(training)


def check_network(
    network: nn.Module, example: Tensor, labels: NDArray[np.integer]
) -> tuple[int, int]:
    """Check the network's layers, and that its logits for one example [1, ...] include
    one for each label.

    A network whose logits for an example depend on more than the example raises an
    error. The function returns the result of :func:`try_example`.
    """
    if not any(parameter.requires_grad for parameter in network.parameters()):
        raise ValueError(
            "build gives a network without any parameter that requires a gradient:"
            " nothing to train"
        )
    check_alone(network, example)
    n_classes, n_values = try_example(network, example)
    # class codes beyond the logits
    if labels.min() < 0 or labels.max() >= n_classes:
        raise ValueError(
            f"labels must hold class codes of the network, 0..{n_classes - 1}, got"
            f" {labels.min()}..{labels.max()}"
        )
    return n_classes, n_values


@torch.no_grad()
def load_weights(
    network: nn.Module, weights: Mapping[str, Tensor], *, new_last_layer: bool
) -> None:
    """Copy weights into the network.

    Parameters
    ----------
    network : torch.nn.Module
    weights : mapping of str to torch.Tensor
        Values of parameters by name; values for a new last layer are ignored.
    new_last_layer : bool
        Whether to leave the last linear layer of ``network`` unchanged.

    Raises
    ------
    ValueError
        If a name does not belong to the network or is missing, a shape differs, an
        entry is not finite, or there is no linear layer.
    """
    named = dict(network.named_parameters())
    # what the given weights do not decide
    kept = _last_layer(network) if new_last_layer else frozenset()
    unknown = sorted(set(weights) - set(named))
    if unknown:
        raise ValueError(
            f"initial names {unknown[0]!r}, but the network has {', '.join(named)}"
        )
    missing = sorted(set(named) - set(weights) - kept)
    if missing:
        raise ValueError(
            f"initial must hold all parameters, but {missing[0]!r} is missing"
        )
    for name in set(weights) - kept:
        value = torch.as_tensor(weights[name])
        own = named[name]
        # an architecture with other layers, or other classes
        if value.shape != own.shape:
            raise ValueError(
                f"initial[{name!r}] must have shape {tuple(own.shape)}, got"
                f" {tuple(value.shape)}; for other classes use new_last_layer=True"
            )
        if not value.isfinite().all():
            raise ValueError(f"initial[{name!r}] must be finite")
        own.copy_(value)


def _last_layer(network: nn.Module) -> frozenset[str]:
    last = None
    for name, layer in network.named_modules():
        if isinstance(layer, nn.Linear):
            last = name, layer
    if last is None:
        raise ValueError(
            "new_last_layer=True needs a network with a linear layer, but build gives"
            " none"
        )
    name, layer = last
    return frozenset(key for key, _ in layer.named_parameters(prefix=name))
