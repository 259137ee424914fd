"""Answers of many models at once, block by block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit, softmax
from torch import Tensor

from dpnotes._validation import Features
from dpnotes.learners._devices import full_float32


class ManyModels(ABC):
    """M models on the same d features. A subclass gives logits in blocks; two classes
    may have one logit, of class 1.

    Attributes
    ----------
    device : str
        Where the models answer, unless they are told otherwise.
    """

    device: str

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def _blocks(
        self, X: Features, device: str
    ) -> Iterator[tuple[slice, slice, Tensor]]:
        """Models, queries and their logits [models, C or 1, queries]; X is checked."""

    def logits(self, X: Features, *, device: str | None = None) -> Features:
        """Logits of all models.

        Parameters
        ----------
        X : ndarray of float32 or float64, shape [n, d]
            Features, which are converted to the dtype of the models.
        device : str, optional
            By default the device of the fit.

        Returns
        -------
        ndarray of float, shape [M, n, C], or [M, n] for two classes with one logit, the
        log-odds of class 1
        """
        return self._answers(X, device, lambda Z: Z[:, 0] if Z.shape[1] == 1 else Z.mT)

    def votes(self, X: Features, *, device: str | None = None) -> NDArray[np.integer]:
        """Class with the largest logit for each model and row; among equal logits, the
        class with the smallest code.

        Parameters
        ----------
        X, device
            See :meth:`logits`.

        Returns
        -------
        ndarray of uint8, or of int32 for more than 256 classes, shape [M, n]
        """
        return self._answers(X, device, _largest)

    def confidence(self, X: Features, *, device: str | None = None) -> Features:
        """Probability that each model assigns to the class it votes for, for each
        row of X [n, d], shape [M, n].
        """
        logits = self.logits(X, device=device)
        if logits.ndim == 2:
            return np.asarray(expit(np.abs(logits)))
        return np.asarray(softmax(logits, axis=2).max(axis=2))

    @torch.no_grad()
    @full_float32()
    def _answers(
        self, X: Features, device: str | None, answer: Callable[[Tensor], Tensor]
    ) -> NDArray[Any]:
        result: Any = None
        for models, queries, Z in self._blocks(X, device or self.device):
            found = answer(Z).cpu().numpy()
            if result is None:
                shape = len(self), len(X), *found.shape[2:]
                result = np.empty(shape, found.dtype)
            result[models, queries] = found
        return np.asarray(result)


def _largest(Z: Tensor) -> Tensor:
    """Code of the first largest logit [k, C, n]; of the sign for [k, 1, n]."""
    if Z.shape[1] == 1:
        return (Z[:, 0] > 0).to(torch.uint8)
    best = Z[:, 0].clone()
    kind = torch.uint8 if Z.shape[1] <= 256 else torch.int32
    codes = torch.zeros_like(best, dtype=kind)
    # whole rows at a time: many times faster than argmax across rows
    for code in range(1, Z.shape[1]):
        codes.masked_fill_(Z[:, code] > best, code)
        torch.maximum(best, Z[:, code], out=best)
    return codes
