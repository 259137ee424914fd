"""diffprivlib's side of ``utility.py``, run by it in an environment of its own: needs
diffprivlib, nothing of ours.

Rows have norm at most 1 and a constant feature, so that ``data_norm=1`` and no further
intercept are what its documentation asks for: with them its noise is that of Chaudhuri,
Monteleoni and Sarwate (2011), Algorithm 2.
"""

import json
import sys
import warnings

import diffprivlib
import numpy as np
from diffprivlib.models import LogisticRegression

# scikit-learn's own, of multi_class
warnings.filterwarnings("ignore", category=FutureWarning)


def main() -> None:
    given = json.loads(sys.argv[1])
    split = np.load(given["path"])
    scores = []
    for epsilon in given["epsilons"]:
        for C in given["C"]:
            fitted = [
                LogisticRegression(
                    epsilon=epsilon,
                    data_norm=1.0,
                    C=C,
                    fit_intercept=False,
                    max_iter=1000,
                    random_state=seed,
                ).fit(split["X"], split["y"])
                for seed in range(given["releases"])
            ]
            scores.append(
                (
                    epsilon,
                    C,
                    [
                        float(model.score(split["X_test"], split["y_test"]))
                        for model in fitted
                    ],
                )
            )
    print(json.dumps({"version": diffprivlib.__version__, "scores": scores}))


if __name__ == "__main__":
    main()
