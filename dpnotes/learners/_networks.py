"""Train one network for each subset of the rows, and compute the votes of all
networks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call, vmap

from dpnotes import _validation as check
from dpnotes._validation import Features, Floats
from dpnotes.learners import _network_training as engines
from dpnotes.learners._descent import Checkpoint, Optimizer, Schedule, epoch_factors
from dpnotes.learners._devices import (
    RowSubsets,
    choose_device,
    full_float32,
    memory_named,
    row_subsets,
    slices,
    torch_generator,
)
from dpnotes.learners._models import ManyModels
from dpnotes.learners._network_training import (
    check_buffers,
    check_data,
    check_network,
    load_weights,
)
from dpnotes.learners._threads import one_thread

QUERY_ROWS = 2048  # rows of one forward pass when predicting: a few MB of activations
QUERY_MODELS = 16  # models of one forward pass where they are batched

Build = Callable[[torch.Generator], nn.Module]


class Networks(ManyModels):
    """Trained networks of one architecture, which answer for examples [n, ...], also
    if these are flattened.

    ``networks[i]`` is a collection of only the i-th network, and ``networks[2:5]`` is a
    collection of several. Both share memory with the whole collection.

    Attributes
    ----------
    parameters : dict of str to torch.Tensor
        Weights of all models by name, with the leading axis [n_models, ...], on the
        CPU.
    loss : ndarray of float64, shape [n_models]
        Mean training loss over the last epoch, in nats.
    """

    def __init__(
        self,
        template: nn.Module,
        parameters: dict[str, Tensor],
        loss: Floats,
        shape: tuple[int, ...],
        device: str,
    ) -> None:
        self._template = template
        self._shape = shape
        self.parameters = parameters
        self.loss = loss
        self.device = device

    def __len__(self) -> int:
        return len(self.loss)

    def __getitem__(self, index: int | slice) -> Networks:
        if not isinstance(index, slice):
            position = range(len(self))[index]
            index = slice(position, position + 1)
        chosen = {name: value[index] for name, value in self.parameters.items()}
        loss = self.loss[index]
        return Networks(self._template, chosen, loss, self._shape, self.device)

    def state_dict(self, index: int) -> dict[str, Tensor]:
        """Weights of one model by name, without the axis of models, as a module of
        the architecture loads them.
        """
        return {name: value[index] for name, value in self.parameters.items()}

    def _blocks(
        self, X: Features, device: str
    ) -> Iterator[tuple[slice, slice, Tensor]]:
        # the axes of images in another order would be read as other images
        if X.shape[1:] not in (self._shape, (math.prod(self._shape),)):
            raise ValueError(
                f"X must have shape [n, {', '.join(map(str, self._shape))}] or be"
                f" flattened, got shape {X.shape}"
            )
        images = X.reshape(len(X), *self._shape)
        where = choose_device(device)
        # convolutions of many models at once are slower on a CPU
        batched = where.type != "cpu" or not engines.has_convolutions(self._template)

        def alone(weights: dict[str, Tensor], x: Tensor) -> Any:
            return functional_call(self._template, weights, (x,))

        together = vmap(alone, in_dims=(0, None))
        for models in slices(len(self), QUERY_MODELS if batched else 1):
            # a few models at a time, which a GPU holds
            weights = {k: v[models].to(where) for k, v in self.parameters.items()}
            first = next(iter(weights.values()))
            # once without images, too, whose answers have a shape
            for start in range(0, max(len(images), 1), QUERY_ROWS):
                rows = slice(start, start + QUERY_ROWS)
                block = torch.tensor(images[rows], device=where)
                x = engines.as_pixels(block, first.dtype)
                if len(first) == 1:
                    own = {name: value[0] for name, value in weights.items()}
                    z = alone(own, x)[None]
                else:
                    z = together(weights, x)
                yield models, rows, z.mT


def fit_networks(
    build: Build,
    images: Features | NDArray[np.uint8],
    labels: NDArray[np.integer],
    subsets: RowSubsets,
    *,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    optimizer: str = "adam",
    momentum: float = 0.9,
    schedule: Schedule = None,
    augmentation: str | None = None,
    initial: Mapping[str, Tensor] | None = None,
    new_last_layer: bool = False,
    engine: str = "auto",
    chunk: int | None = None,
    checkpoint: Checkpoint | None = None,
    seed: int,
    first: int = 0,
    device: str = "auto",
) -> Networks:
    """Fit one network to each subset by mini-batch descent on the cross-entropy.

    Every epoch goes once through the subset in a fresh random order; the last batch of
    an epoch may be smaller. Model i draws its initial weights, its orders and its
    augmentation on the CPU, from separate streams that are spawned from the seed and i.
    Therefore the result depends neither on the other models nor, up to rounding, on the
    device, the engine or the chunk. The device holds one copy of the rows in use, and
    every batch is gathered from it.

    Parameters
    ----------
    build : callable
        Function ``build(generator) -> module`` that returns a network with initial
        weights from that generator. Batch normalisation and other buffers raise an
        error, because they would not be separate between models. Dropout raises an
        error, because it draws from global state.
    images : ndarray of float32, float64 or uint8, shape [n, ...]
        Training data in the dtype that the weights should have; bytes are divided by
        255 and give float32 weights.
    labels : ndarray of int, shape [n]
        Class codes 0 to n_classes - 1.
    subsets : ndarray of int, shape [n_models, m], or sequence of index arrays of any
    lengths >= 1
        Row indices of each model; repeats are allowed.
    epochs : int, >= 1
    batch_size : int, >= 1
        Number of rows in a batch.
    learning_rate : float, > 0
    optimizer : {"adam", "momentum", "sgd"}
        Adam, or stochastic gradient descent with or without momentum, with PyTorch's
        defaults for the settings that are not given here.
    momentum : float in [0, 1)
        Momentum of the optimizer ``"momentum"``.
    schedule : mapping of int to float, optional
        Schedule ``{epoch: factor}`` of factors of the learning rate: each factor holds
        from its epoch on, and the factor is 1 before the first such epoch.
    augmentation : None or "crop-flip"
        ``"crop-flip"``: each time an image [channels, height, width] is used, it gets a
        border of 4 zeros, is cropped at random to its old size, and is mirrored with
        probability 1/2.
    initial : mapping of str to torch.Tensor, optional
        Initial weights: a model's parameters by name, as :meth:`Networks.state_dict`
        returns them.
    new_last_layer : bool
        Whether to take every layer except the last linear layer from ``initial``; the
        network of ``initial`` may then have other classes. The last layer starts with
        its weights from ``build``. With a tenth of the learning rate, this procedure is
        the fine-tuning of the bagging paper (arXiv:2008.09845, section 4.1).
    engine : {"auto", "loop", "batched"}
        ``"loop"`` trains the models one after the other, and ``"batched"`` trains many
        in one tensor program. ``"auto"`` takes the loop for convolutions on a CPU, for
        a single model and for batches of 512 rows or more.
    chunk : int, >= 1, optional
        Number of models in one tensor program; by default chosen from the available
        memory.
    checkpoint : Checkpoint, optional
        Object that saves the state of each training run at the end of its epochs:
        ``save(training, state, last=...)``. If ``load(training)`` returns a state, the
        run continues from there; on the same machine the result is bit for bit the same
        as without a stop.
    seed : int, >= 0
    first : int, >= 0
        Number of the first model, if these models are part of a larger set: model i
        then uses the random streams of model ``first + i``.
    device : {"auto", "cpu", "cuda", ...}
        ``"auto"``: the GPU if there is one.

    Returns
    -------
    Networks

    Raises
    ------
    ValueError
        If shapes disagree, an index or label is out of range, an entry is not finite, a
        setting is out of its range, a layer is not allowed, ``initial`` does not fit,
        or training diverges (the loss is not finite).
    TypeError
        If a setting has the wrong type.
    MemoryError
        If ``chunk`` models do not fit into memory.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from dpnotes.learners import convolutional_network
    >>> images, labels = load_digits().images[:, None] / 16, load_digits().target
    >>> networks = fit_networks(
    ...     lambda generator: convolutional_network(
    ...         (1, 8, 8), 10, channels=(16,), kernel_size=3, generator=generator
    ...     ),
    ...     images,
    ...     labels,
    ...     [range(0, 900, 3), range(900)],
    ...     epochs=10,
    ...     batch_size=32,
    ...     learning_rate=0.01,
    ...     seed=0,
    ... )
    >>> bool((networks.votes(images[900:]) == labels[900:]).mean() > 0.8)
    True
    """
    check_data(images, labels, dtypes=("float32", "float64", "uint8"))
    chosen = row_subsets(subsets, n=len(images))
    factors = epoch_factors(schedule, check.at_least("epochs", epochs, 1))
    rates = check.positive("learning_rate", learning_rate) * factors
    # all layers would be new
    if new_last_layer and initial is None:
        raise ValueError(
            "new_last_layer=True needs the weights of the other layers, got"
            " initial=None"
        )
    where = choose_device(device)
    # the device gets no rows that no model uses
    used, places = np.unique(chosen.indices, return_inverse=True)
    rows = torch.split(torch.from_numpy(places), chosen.sizes.tolist())
    # bytes are trained on in float32
    dtype = torch.float64 if images.dtype == np.float64 else torch.float32
    seed = check.at_least("seed", seed, 0)
    first = check.at_least("first", first, 0)

    def start(index: int) -> engines.Start:
        # gives the initial weights first
        orders = torch_generator(seed, first + index)
        changes = torch_generator(seed, first + index, 1)
        network = build(orders).to(dtype)
        if initial is not None:
            load_weights(network, initial, new_last_layer=new_last_layer)
        return engines.Start(network, rows[index], orders, changes)

    # of any model, for what all have in common
    network = start(0).network.eval()
    example = engines.as_pixels(torch.tensor(images[:1]), dtype)
    n_classes, n_activations = check_network(network, example, labels)
    # batched models would share them
    check_buffers(network)
    training = engines.Training(
        torch.from_numpy(images[used]).to(where),
        torch.from_numpy(labels[used].astype(np.int64)).to(where),
        n_classes,
        dtype,
        check.at_least("batch_size", batch_size, 1),
        rates,
        Optimizer(optimizer, momentum),
        augmentation,
        checkpoint,
    )
    engine = engines.choose_engine(
        engine, network, where, n_models=len(chosen), batch_size=batch_size
    )
    size = engines.model_bytes(network, example, n_activations, batch_size=batch_size)
    groups = engines.groups(
        chosen.sizes, engine, network, size, where, batch_size=batch_size, chunk=chunk
    )
    fitted = {}
    for name, one in network.named_parameters():
        fitted[name] = torch.empty(len(chosen), *one.shape, dtype=one.dtype)
    # of the last epoch
    losses = np.empty(len(chosen))
    for models in groups:
        memory = memory_named(len(models), size, where)
        with one_thread(), full_float32(), memory:
            starts = [start(int(index)) for index in models]
            parameters, loss = engines.train(starts, training, engine)
        # weights that are not finite give no finite loss
        if not np.isfinite(loss).all():
            worst = np.argmin(np.isfinite(loss))
            raise ValueError(
                f"training of model {models[worst]} diverged (loss {loss[worst]});"
                f" lower {learning_rate=}"
            )
        # of one model without, of several with an axis of models
        for name, value in parameters.items():
            fitted[name][models] = value
        losses[models] = loss
    return Networks(network, fitted, losses, images.shape[1:], device)
