"""The class that most records have, found privately: what any learner must beat."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dpnotes.accounting import soft_vote, soft_vote_beta
from dpnotes.mechanisms import soft_vote as draw_soft_vote
from dpnotes.methods import PrivateClassifier


@dataclass(eq=False, repr=False)
class MajorityClass(PrivateClassifier):
    """Always the same class, drawn with probability proportional to ``exp(beta n_c)``, n_c the records of class c.

    Each record is a vote: the exponential mechanism on the counts, which finds the most frequent class once its lead
    exceeds a few units of ``1 / beta``. Features are not looked at.

    Parameters
    ----------
    epsilon : float, > 0
    delta : float, in [0, 1)
    adjacency : {"zero-out", "add-remove", "replace-one"}
        The guarantee is the same for all three.
    classes, random_state, noise_seed
        See :class:`dpnotes.methods.PrivateClassifier`; ``random_state`` is not used.

    Attributes
    ----------
    profile_ : dpnotes.accounting.PrivacyProfile
    class_ : object
        The answer to every query.
    classes_ : ndarray, shape [n_classes]
    n_features_in_ : int

    Source
    ------
    McSherry and Talwar (2007); :func:`dpnotes.accounting.soft_vote`.

    Examples
    --------
    >>> model = MajorityClass(1.0, noise_seed=0).fit(np.zeros((90, 2)), [0] * 30 + [1] * 60)
    >>> model.predict(np.zeros((2, 2))), model.profile_.epsilon(0.0)
    (array([1, 1]), 1.0)
    """

    epsilon: float
    delta: float = 0.0
    _: KW_ONLY
    adjacency: str = "zero-out"

    _published = ("class_",)

    def fit(self, X: Any, y: Any) -> Self:
        """Draw the class.

        Parameters
        ----------
        X : array_like of float, shape [n, d]
        y : array_like, shape [n]

        Returns
        -------
        Self
            The estimator itself.

        Raises
        ------
        ValueError
            If data differ in length, there is one class only, or a parameter is outside its range.
        """
        return self._fit_at_once(X, y)

    def _learn(self, X: Any, y: Any) -> None:  # type: ignore[override]
        beta = soft_vote_beta(self.epsilon, self.delta, answers=1)
        records = self._private_records(X, y)
        counts = np.bincount(records.labelled()[1], minlength=len(records.classes))
        (code,) = draw_soft_vote(counts[None], beta=beta, seed=self._randomness().noise)
        self.profile_ = self._implemented(soft_vote(beta=beta, adjacency=self.adjacency), exact=True)
        self.classes_, self.class_ = records.classes, records.classes[code]

    def predict(self, X: Any) -> NDArray[Any]:
        """The class, as often as X has rows, shape [n]."""
        return np.repeat(self.class_, len(self._queries(X)))
