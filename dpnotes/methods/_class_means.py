"""Private class means and numbers: one noisy sum for each class, no optimisation."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass

import numpy as np

from dpnotes._validation import Features, Floats, Integers, positive
from dpnotes.accounting import PrivacyProfile
from dpnotes.methods._linear import calibrated, noisy
from dpnotes.methods._linear_estimators import checked_epsilon_delta
from dpnotes.methods._private import Learned, Linear, LogitRelease, Records

# the constant feature that counts a class's records, as a fraction of the norm
COUNT = 0.5
DIGITS = 26  # binary ones, of an entry in units of the norm
ROUNDING = 1e-12  # relative, of the division by the norm
# d columns count as d^DIRECTIONS independent ones, as most are correlated
DIRECTIONS = 2 / 3
LEAST_SPREAD = 0.05  # squared norm of a record less its class mean


@dataclass(eq=False, repr=False)
class ClassMeans(LogitRelease):
    """Class means, and how frequent the classes are, released with noise.

    For each class, the sum of its records and their number are released as one vector.
    Because a record is in one class, the noise on each vector of d + 1 numbers is the
    same for any number of classes. The noisy sum divided by the noisy number, moved to
    the nearest point whose norm is at most ``norm``, is the mean. It is shrunk towards
    the common mean by what the noise explains of their distance. Logits are those of
    normal records of one spread around these means, and of classes as frequent as the
    noisy numbers say. Use this method if epsilon times the number of records is small.
    Its bias does not vanish with more records.

    Parameters
    ----------
    epsilon : float, > 0
    delta : float, in [0, 0.999]
        0: pure differential privacy.
    norm : float, > 0
        Public bound on the Euclidean norm of each row of X, in the units of X. The
        bound must not be taken from the data. Longer rows are shortened to the norm
        without a warning, in the fit and in queries. A public rule should centre the
        rows, as :class:`dpnotes.preprocessing.PublicScaler` does, because a shift
        common to all rows uses up the norm.
    adjacency : {"zero-out", "replace-one", "add-remove"}
        Definition of neighbouring data sets: one record is made empty, replaced, or
        added or removed. For pure differential privacy, ``"replace-one"`` needs twice
        the noise.
    classes, random_state, noise_seed
        See :class:`PrivateClassifier`; ``random_state`` is not used.

    Attributes
    ----------
    profile_ : dpnotes.accounting.PrivacyProfile
        Guarantee of releasing the noisy sums, which determine everything else.
    coef_ : ndarray of float64, shape [n_classes, d]
        The means of the classes, divided by the variance of a record around them.
    intercept_ : ndarray of float64, shape [n_classes]
        Logarithm of the frequency of each class, minus half the squared norm of its
        mean divided by that variance.
    classes_ : ndarray, shape [n_classes]
    n_features_in_ : int

    Source
    ------
    Sums of bounded vectors with noise b of density proportional to ``exp(-rate ||b||)``
    (Chaudhuri, Monteleoni and Sarwate 2011), or with Gaussian noise (Balle and Wang
    2018); classes hold different records, so their releases compose in parallel
    (McSherry 2009); means are shrunk as by James and Stein (1961).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> model = ClassMeans(1.0, noise_seed=0).fit(X / 8 - 1, y)
    >>> (
    ...     model.coef_.shape,
    ...     bool(model.score(X / 8 - 1, y) > 0.7),
    ...     model.profile_.epsilon(0.0),
    ... )
    ((10, 64), True, 1.0)
    """

    epsilon: float
    delta: float = 0.0
    _: KW_ONLY
    norm: float = 1.0
    adjacency: str = "zero-out"

    _adjacencies = ("zero-out", "replace-one", "add-remove")

    def _learn(self, records: Records) -> Learned:
        released, deviation, profile = self._released(
            *records.labelled(),
            len(records.classes),
            self._randomness().generator(0),
        )
        coef, intercept = _discriminant(released, deviation)
        model = Linear(coef / float(self.norm), intercept)
        return Learned(profile, model, model.named())

    def _released(
        self,
        X: Features,
        codes: Integers,
        n_classes: int,
        generator: np.random.Generator | None,
    ) -> tuple[Floats, float, PrivacyProfile]:
        """Noisy sums in units of the norm, shape [n_classes, d + 1], the standard
        deviation of the noise of one number, and the guarantee.
        """
        epsilon, delta = checked_epsilon_delta(self.epsilon, self.delta)
        norm = positive("norm", self.norm)
        # of a record with the constant feature, in units of the norm
        sensitivity = longest = math.hypot(1.0, COUNT) * (1 + ROUNDING)
        if self.adjacency == "replace-one":
            # A record leaves one class and another comes to one: the sums of two
            # classes differ by one record each, or that of one class by two rows. Their
            # norms add up for pure privacy, and their squares for Gaussian noise.
            sensitivity = 2 * longest
            if delta > 0:
                sensitivity = max(2 * (1 + ROUNDING), math.sqrt(2) * longest)
        how, profile = calibrated(
            epsilon, delta, sensitivity=sensitivity, adjacency=self.adjacency
        )
        # of one coordinate of the noise
        deviation = how.get("sigma", 0.0)
        if delta == 0:
            # the norm of d + 1 coordinates has a gamma law of that shape, and its mean
            # square is (d + 1) (d + 2) / rate^2
            deviation = math.sqrt(X.shape[1] + 2) / how["rate"]
        # the gate has shortened the rows
        sums = _sums(X.astype(np.float64) / norm, codes, n_classes)
        released = noisy(sums, generator, scales=np.ones(n_classes), **how)
        about = {
            "status": "proved",
            "assumption": f"norm={norm:g} is public",
            "source": "Chaudhuri et al. (2011)",
        }
        return released, deviation, profile.with_(**about)


def _sums(X: Floats, codes: Integers, n_classes: int) -> Floats:
    """Sums of the rows of each class, and of the constant feature, shape [n_classes, d
    + 1], without rounding error.

    Each row is rounded towards zero, so that a sum of 2^27 rows has room for all
    remaining digits. Therefore a record adds the same vector whatever the other records
    are, and this vector is no longer than the record.
    """
    rows = np.hstack([np.trunc(X * 2**DIGITS), np.full((len(X), 1), COUNT * 2**DIGITS)])
    sums: Floats = (
        np.stack([rows[codes == c].sum(axis=0) for c in range(n_classes)]) / 2**DIGITS
    )
    return sums


def _discriminant(released: Floats, deviation: float) -> tuple[Floats, Floats]:
    """Weights [n_classes, d] and intercepts of the classes from noisy sums; each number
    of records counts as at least the deviation of its noise.
    """
    d = released.shape[1] - 1
    numbers = np.maximum(released[:, -1], deviation) / COUNT
    frequencies = numbers / numbers.sum()
    means = released[:, :-1] / numbers[:, None]
    means /= np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1.0)
    common = frequencies @ means
    noise = d * np.square(deviation / numbers)
    apart = np.square(means - common).sum(axis=1)
    trust = 1 - noise / np.maximum(apart, noise)
    # as James and Stein shrink, and never beyond the common mean
    means = common + trust[:, None] * (means - common)
    squares = np.square(means).sum(axis=1)
    # rows have norm 1 at most
    around = max(1 - float(frequencies @ squares), LEAST_SPREAD)
    spread = around / d**DIRECTIONS
    # the logits of normal records of that spread
    return means / spread, np.log(frequencies) - squares / (2 * spread)
