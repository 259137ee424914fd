"""Many problems minimised at once: which of them go on, and the results of the finished ones."""

from __future__ import annotations

import torch

COMPACT_AT = 0.75  # fraction of models still active below which the others' memory is let go


class Active:
    """Which of k problems are still being minimised, and what the others ended with.

    Parameters
    ----------
    tolerance : torch.Tensor, shape [k]
    max_iterations : int, >= 0
    results : tensor, shape [k, ...]
        Of the shape and dtype of what is to be kept of each problem.

    Attributes
    ----------
    tolerance : torch.Tensor
        Of the problems that are held now.
    results : list of torch.Tensor
        What :meth:`finish` was given of each problem, as it was numbered at first, and its gradient norm last.
    iterations : torch.Tensor of int64, shape [k]
    """

    def __init__(self, tolerance: torch.Tensor, max_iterations: int, *results: torch.Tensor) -> None:
        k, device = len(tolerance), tolerance.device
        self.tolerance, self.max_iterations = tolerance, max_iterations
        self.results = [torch.empty_like(each) for each in (*results, tolerance)]
        self.iterations = torch.full((k,), max_iterations, device=device)
        self._numbers = torch.arange(k, device=device)
        self._done = torch.zeros(k, dtype=torch.bool, device=device)

    def finish(self, iteration: int, norm: torch.Tensor, *values: torch.Tensor) -> bool:
        """Keep the values of those within their tolerance, or of all at the last iteration; True if none is left."""
        last = iteration == self.max_iterations
        new = ~self._done & ((norm <= self.tolerance) | last)
        which = self._numbers[new]
        for result, value in zip(self.results, (*values, norm), strict=True):
            result[which] = value[new]
        self.iterations[which] = iteration
        self._done |= new
        return last or bool(self._done.all())

    def left(self) -> torch.Tensor | None:
        """Places of the problems to keep, once enough are finished that dropping the others pays."""
        if float((~self._done).double().mean()) >= COMPACT_AT:
            return None
        left = (~self._done).nonzero()[:, 0]
        self._numbers, self.tolerance, self._done = self._numbers[left], self.tolerance[left], self._done[left]
        return left
