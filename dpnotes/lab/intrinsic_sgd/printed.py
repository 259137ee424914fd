"""What Hyland and Tople (2019) print in their Tables I to IV, for logistic
regression.
"""

from __future__ import annotations

import math
from collections import namedtuple
from functools import cache

import pandas as pd

from dpnotes.accounting.papers import intrinsic_sgd, sgd_sensitivity
from dpnotes.lab._experiment import paper_table

# of the logistic loss where the norm of x is at most 1 and a bias is learnt
LIPSCHITZ = 2**0.5
SMOOTHNESS = 0.5  # the same: a quarter of the squared norm of (x, 1)
# fields of a task after its name, as the file of the printed values calls them
QUANTITIES = (
    *("n_train", "dimension", "batch_size", "learning_rate", "convergence_batches"),
    *("sensitivity_theoretical", "sensitivity_empirical", "sigma_intrinsic", "delta"),
    *("epsilon_intrinsic", "epsilon_intrinsic_empirical", "noiseless, none"),
    *("noisy, theoretical", "gain, theoretical", "gap_closed, theoretical"),
)


def printed() -> pd.DataFrame:
    """Read Tables I to IV: dataset (the paper's name), quantity, printed, sd (of single
    runs).

    A key of the file is a quantity and a task.
    """
    table = paper_table("cells_intrinsic_sgd").query("table.str.startswith('Table')")
    table = table.dropna(subset="key")
    keys = table["key"].str.rpartition(", ")
    return table[["printed", "sd"]].assign(dataset=keys[2], quantity=keys[0])


class Task(
    namedtuple(
        "Task",
        "name n d batch_size learning_rate steps sensitivity observed sigma delta"
        " epsilon epsilon_observed noiseless noisy gain closed",
    )
):
    """One data set of the paper, with its printed values.

    Parameters
    ----------
    name : str
    n, d : int
        Training records and their features.
    batch_size, steps : int
        Records in a batch, and batches until convergence.
    learning_rate : float
    sensitivity, observed : float
        The "theoretical" and the "empirical" sensitivity, in the units of the weights.
    sigma : float
        Standard deviation of a weight over seeds, initialisation included.
    delta : float
        1 / n.
    epsilon, epsilon_observed : float
        The intrinsic epsilon with the theoretical and with the observed sensitivity.
    noiseless, noisy, gain, closed : float
        Values at epsilon = 1 with the theoretical sensitivity: accuracy without noise,
        accuracy with noise, the gain from counting on SGD's own noise, and the fraction
        of the gap that this gain is said to close.
    """

    def bound(self, analysis: str = "tight") -> float:
        """Compute the sensitivity for one fixed seed; ``"published"`` counts a
        broken-off pass as a fraction.
        """
        epochs = self.steps * self.batch_size / self.n
        loss = {
            "lipschitz": LIPSCHITZ,
            "smoothness": SMOOTHNESS,
            "learning_rate": self.learning_rate,
        }
        return sgd_sensitivity(
            **loss, batch_size=self.batch_size, epochs=epochs, analysis=analysis
        )


@cache
def tasks() -> tuple[Task, ...]:
    """Read the tasks MNIST-binary, Forest and Adult."""
    wide = printed().pivot_table("printed", "dataset", "quantity", sort=False)[
        list(QUANTITIES)
    ]
    wide = wide.astype(
        dict.fromkeys(
            ("n_train", "dimension", "batch_size", "convergence_batches"), int
        )
    )
    return tuple(Task(*row) for row in wide.itertuples(name=None))


def intrinsic_epsilon(
    *, sigma: float, sensitivity: float, delta: float, analysis: str = "tight"
) -> float:
    """Compute epsilon at ``delta`` under the assumption of
    :func:`dpnotes.accounting.papers.intrinsic_sgd`.

    Parameters
    ----------
    sigma : float, > 0
    sensitivity : float, > 0
        In the units of sigma.
    delta : float, in (0, 1)
    analysis : {"tight", "published"}
        ``"published"`` is the paper's formula, ``sqrt(2 log(1.25 / delta)) sensitivity
        / sigma``. This formula is proved for results below 1, and gives too small
        values above about 8.

    Returns
    -------
    float

    Source
    ------
    Hyland and Tople (2019), Algorithm 1 (with log(1.25 / delta)); Balle and Wang
    (2018), Theorem 8.

    Examples
    --------
    >>> entry = dict(sigma=0.028, sensitivity=0.050, delta=9.62e-5)
    >>> (
    ...     round(intrinsic_epsilon(**entry), 3),
    ...     round(intrinsic_epsilon(**entry, analysis="published"), 3),
    ... )
    (7.717, 7.772)
    """
    if analysis == "published":
        return math.sqrt(2 * math.log(1.25 / delta)) * sensitivity / sigma
    return intrinsic_sgd(sigma=sigma, sensitivity=sensitivity).epsilon(delta)
