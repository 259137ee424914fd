"""What a row of the bagging chapter costs, in images that are trained on, in seconds of a core, in hours of a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

RECORDS = {"mnist": 60_000, "digits": 1442, "cifar10": 50_000}  # training records; of digits in our split
CPU = {  # images a second that one core trains on, plain and by DP-SGD, measured
    "convolutional": (9000.0, 6700.0),  # at width 16
    "vgg16": (42.0, 28.0),
    "vgg5": (2200.0, 1467.0),
    "linear": (200_000.0, 200_000.0),
}
GPU = (5000.0, 2000.0)  # images a second that a GPU would train VGG16 on, plain and by DP-SGD: estimates


def images(parameters: Mapping[str, Any]) -> float:
    """Images that a row trains on, all epochs and models together, a public model and shared teachers not counted."""
    if "first" in parameters:  # teachers; a logistic one takes as long as thirty epochs of a network
        shards = parameters["n_models"] / parameters["n_teachers"] * RECORDS[parameters["dataset"]]
        return float(shards * (parameters["epochs"] or 30))
    if "n_teachers" in parameters:
        return float((parameters["answers"] or parameters["queries"]) * parameters["student_epochs"])
    drawn = parameters.get("subsample") or RECORDS[parameters["dataset"]]
    models = parameters.get("n_models", 1)
    if "n_networks" in parameters:
        models = parameters["n_networks"] / 12  # twelve rows share the attacked networks
    return float(drawn * models * parameters["epochs"])


def seconds(parameters: Mapping[str, Any]) -> float:
    """Seconds of one row on one core, measured."""
    if "mode" in parameters or {"l2", "subsample"} <= parameters.keys():  # logistic regressions, whatever their size
        return 0.5
    if "width" not in parameters:  # DP-SGD on handcrafted features
        return 3.0
    width, architecture = parameters["width"], parameters.get("architecture", "convolutional")
    speed = CPU["linear" if width is None else architecture]["clipping_norm" in parameters]
    slower = (width / 16) ** 1.6 if width is not None and architecture == "convolutional" else 1.0
    return _with_teachers(parameters) / speed * slower


def gpu_hours(parameters: Mapping[str, Any]) -> float:
    """Hours of one row on a GPU at the rates of :data:`GPU`, which are estimates."""
    return _with_teachers(parameters) / GPU["clipping_norm" in parameters] / 3600


def _with_teachers(parameters: Mapping[str, Any]) -> float:
    """Images of a row; for PATE with a ninth of its teachers, which nine rows share."""
    teachers = RECORDS[parameters["dataset"]] * (parameters["epochs"] or 0) / 9 if "answers" in parameters else 0.0
    return images(parameters) + teachers
