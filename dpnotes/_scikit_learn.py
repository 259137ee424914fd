"""The bases of an estimator, with types, and the form of its decision values.

scikit-learn has none, and for a class whose base has no types a type checker lets any
argument pass: ``ModelSensitivity("1.0", l2=0.1)``.
"""

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:

    class BaseEstimator:
        def get_params(self, deep: bool = True) -> dict[str, Any]: ...
        def set_params(self, **params: Any) -> Self: ...
        def __sklearn_tags__(self) -> Any: ...

    class ClassifierMixin:
        def score(self, X: Any, y: Any, sample_weight: Any = None) -> float: ...

    class TransformerMixin:
        def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Any: ...
        def set_output(self, *, transform: str | None = None) -> Self: ...

    class OneToOneFeatureMixin:
        def get_feature_names_out(
            self: Any, input_features: ArrayLike | None = None
        ) -> NDArray[Any]: ...

else:
    from sklearn.base import (
        BaseEstimator as BaseEstimator,
        ClassifierMixin as ClassifierMixin,
        OneToOneFeatureMixin as OneToOneFeatureMixin,
        TransformerMixin as TransformerMixin,
    )


def decision_values(logits: NDArray[Any]) -> NDArray[Any]:
    """Convert logits [n, C] to scikit-learn's decision values: the logits, or for
    two classes their difference [n].
    """
    if logits.shape[1] == 2:
        return np.asarray(logits[:, 1] - logits[:, 0])
    return logits
