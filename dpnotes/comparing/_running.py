"""Fit a method once, and score it on held-out records."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from dpnotes.comparing._candidates import Candidate, Task, Unsuited
from dpnotes.comparing._tables import Split
from dpnotes.preprocessing import ClipNorm

# parameters that say how much there is
NOISE = ("sigma", "noise_multiplier", "beta", "scale", "rate", "epsilon")


def scored(
    candidate: Candidate, task: Task, setting: Mapping[str, Any], split: Split
) -> tuple[float, float, str]:
    """Fit a method; return the fraction of queries that it labels correctly, the
    seconds, and the noise as text.

    The queries are the test records, or as many of them as may be answered. If training
    fails, the fraction is NaN, and the text is the error message.
    """
    began = time.perf_counter()
    asked = slice(None if candidate.released != "answers" else task.answers)
    try:
        X, X_test = (
            ClipNorm().fit_transform(rows) if candidate.ball else rows
            for rows in (split.X, split.X_test)
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = candidate.made(task, setting).fit(X, split.codes)
            accuracy = float(
                np.mean(fitted.predict(X_test[asked]) == split.codes_test[asked])
            )
    # whatever another library raises; of private records none may be seen
    except Exception as error:
        note = (
            str(error)
            if isinstance(error, Unsuited)
            else f"failed: {type(error).__name__}: {error}"
        )
        return float("nan"), time.perf_counter() - began, note
    known = getattr(fitted, "profile_", None)
    noise = (
        {name: known.parameters[name] for name in NOISE if name in known.parameters}
        if known and task.scale == 1
        else {}
    )
    return accuracy, time.perf_counter() - began, text_of(noise)


def text_of(setting: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in setting.items()
    )
