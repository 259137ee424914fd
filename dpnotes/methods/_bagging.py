"""Bagging with its exact privacy profile."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import KW_ONLY, dataclass
from typing import Any

from numpy.typing import NDArray
from sklearn.tree import DecisionTreeClassifier

from dpnotes import accounting
from dpnotes._validation import Features, Floats, at_least_one
from dpnotes.mechanisms import draw_subsets
from dpnotes.methods._answers import short_seeds
from dpnotes.methods._private import PROTECTS_N, Learned, Records
from dpnotes.methods._teachers import Ensemble, Teachers


@dataclass(eq=False, repr=False)
class Bagging(Ensemble):
    """Majority vote of models, each trained on a random subsample, with the exact
    guarantee of releasing the models.

    The guarantee holds for any base learner but is weak: a record that is drawn may be
    fully exposed. The bagging chapter explains why, and ``profile_`` states the
    guarantee after fitting.

    Parameters
    ----------
    epsilon : float, >= 0, optional
    delta : float, in (0, 1), optional
        Together with epsilon, it determines the largest subsample. Because bagging adds
        no noise, it cannot satisfy a delta far below (number of models) / n.
    subsample : int, >= 1, optional
        Number of records drawn for each model. Give it instead of epsilon and delta.
    estimator : object, optional
        The base learner: a scikit-learn classifier, or a learner like
        :class:`dpnotes.learners.NetworkClassifier`, which has ``fit_many`` and fits
        many models in one call. ``fit_many`` must accept a list of index arrays of
        unequal length. If ``noise_seed`` is None, ``fit_many`` is called separately for
        each model. Default: a decision tree.
    n_models : int, >= 1
        Number of models.
    replace : bool
        Whether the records of a subsample are drawn with replacement.
    scheme : {"independent", "split"}
        ``"independent"`` draws each subsample independently of the others, and
        ``"split"`` draws all at once and divides the draws among the models; see
        :func:`dpnotes.accounting.bagging`.
    adjacency : {"zero-out", "replace-one", "add-remove"}
        Definition of neighbouring data sets. An empty record retains its place in the
        draws and is left out of the subsamples that drew it. Only the models of these
        subsamples change, and each has one vote.
    n : int, >= 1, optional
        Only for ``"add-remove"``, where it is needed: a public lower bound on the
        number of records. The guarantee is weaker for fewer records, so it is stated
        for ``n``, and holds for data sets of which the larger neighbour has at least so
        many. Otherwise the number of records is public.
    classes : sequence, optional
        All labels that can occur. By default they are taken from y, and the guarantee
        then covers all of the fitted estimator except ``classes_``. Omit them only if
        it is public which labels occur in y.
    n_jobs : int or None
        Number of joblib workers for scikit-learn base learners, which start none
        of their own.
    random_state : int, RandomState instance or None
        Seed of the random choices of the base learners.
    noise_seed : int, optional
        See :class:`PrivateClassifier`.

    Attributes
    ----------
    profile_ : dpnotes.accounting.PrivacyProfile
        Guarantee of releasing all models; predictions are computed from them.
    classes_ : ndarray, shape [n_classes]
    n_features_in_ : int

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> model = Bagging(subsample=100, n_models=5, noise_seed=0).fit(X, y)
    >>> round(model.profile_.advantage, 4)
    0.2429
    """

    epsilon: float | None = None
    delta: float | None = None
    _: KW_ONLY
    subsample: int = None  # type: ignore[assignment]
    n_models: int = 1
    replace: bool = True
    scheme: str = "independent"
    adjacency: str = "zero-out"
    n: int | None = None

    _adjacencies = accounting.ADJACENCIES
    _least_classes = 1

    def _rules(self, n: int | None, d: int, n_classes: int) -> dict[str, Any]:
        budget = self._budget_for("subsample")
        # a protected number of records is replaced by the public constant
        given = None if self.n is None else at_least_one("n", self.n)
        n = given if n is None else n
        if n is None or budget is None:
            return {"n": n}
        return {"n": n, "subsample": self.calibrate(n)}

    def calibrate(self, n: int) -> int:
        """Compute the largest size of a subsample at which bagging of ``n`` records is
        (epsilon, delta)-DP.

        Raises
        ------
        ValueError
            If bagging is not (epsilon, delta)-DP at any size.
        """
        epsilon, delta = self._budget_for("subsample") or (0.0, 0.0)
        drawn = self._chosen("n_models", "replace", "scheme", "adjacency")
        # delta grows with the size of a subsample, so bisection finds the largest;
        # a split draws all models at once, and has no more than n records
        sizes = range(1, n // self.n_models if self.scheme == "split" else n)

        def key(size: int) -> bool:
            return (
                accounting.bagging(n=n, subsample=size, **drawn).delta(epsilon) > delta
            )

        if not (size := bisect_left(sizes, True, key=key)):
            known = (
                f"got epsilon={epsilon}, delta={delta} for {n} records and"
                f" {self.n_models} models"
            )
            raise ValueError(
                "delta must be at least about n_models / n, as a drawn record may be"
                f" released, {known}"
            )
        return size

    def _learn(self, records: Records) -> Learned:
        drawn = self._chosen("subsample", "n_models", "replace", "scheme")
        n = records.n
        if self.adjacency == PROTECTS_N:
            n = at_least_one("n", self.n)  # type: ignore[arg-type]
        profile = accounting.bagging(n=n, adjacency=self.adjacency, **drawn)
        if self.adjacency == PROTECTS_N:
            least = f"the larger of two neighbouring data sets has at least {n} records"
            profile = profile.with_(assumption=least)
        # the draws are part of the guarantee, what learners draw is not
        draw_seed, learn_seed = short_seeds(self.noise_seed, 2)
        if self.random_state is not None or self.noise_seed is None:
            learn_seed = short_seeds(self.random_state, 1)[0]
        subsets = draw_subsets(records.n, **drawn, seed=draw_seed)
        models = self._teach(
            records, subsets, default=DecisionTreeClassifier(), seed=learn_seed
        )
        return Learned(profile, models, exact=False)

    def predict_proba(self, X: Any) -> Floats:
        """Fraction of the models that vote for each class, shape [n, n_classes]."""
        return self._answered(X, lambda fitted, X: _shares(fitted.model, X))

    def predict(self, X: Any) -> NDArray[Any]:
        """Label with the most votes, shape [n]; in a tie, the first in ``classes_``."""
        return self._answered(
            X, lambda fitted, X: fitted.classes[_shares(fitted.model, X).argmax(axis=1)]
        )


def _shares(models: Teachers, X: Features) -> Floats:
    return models.vote_counts(X) / len(models.present)
