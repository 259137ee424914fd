"""Type checkers see the parameters of estimators and experiments: a wrong one is an error of mypy."""

import re
import subprocess
import sys

CALLS = """
from dpnotes import ModelSensitivity
from dpnotes.lab.bagging.experiments import private_base
from dpnotes.lab.dpbag.experiments import cost
from dpnotes.lab.intrinsic_sgd.experiments import trajectory

ModelSensitivity(1.0, l2=0.1)
ModelSensitivity("1.0", l2=0.1)  # error
ModelSensitivity(1.0, l2=0.1, foo=1)  # error
cost(dataset="digits", teachers="logistic", n_teachers=2, n_partitions=1, seed=0)
cost(dataset="digits", teachers="logistic", n_teachers="2", n_partitions=1, seed=0)  # error
private_base(dataset="a", split="test", mode="bare", subsample="9", epsilon=1.0, delta=0.1, l2=0.1, seed=0)  # error
trajectory(
    dataset="digits", hidden=None, output="sigmoid", initial="fixed", batch_size=8, learning_rate=0.1,
    schedule="constant", steps=1, n_seeds=2, n_neighbours=1, seed=0, run=0, step=0,
)
trajectory(  # error
    dataset="digits", hidden=None, output="sigmoid", initial="fixed", batch_size="8", learning_rate=0.1,
    schedule="constant", steps=1, n_seeds=2, n_neighbours=1, seed=0, run=0, step=0,
)
"""


def test_mypy_refuses_parameters_of_another_type(repository, tmp_path):
    file = tmp_path / "calls.py"
    file.write_text(CALLS)
    expected = {number for number, line in enumerate(CALLS.splitlines(), 1) if line.endswith("# error")}
    command = [sys.executable, "-m", "mypy", "--config-file", "pyproject.toml", str(file)]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True)
    found = {int(line) for line in re.findall(r"calls\.py:(\d+): error", done.stdout)}
    assert {min(expected, key=lambda number: abs(number - line)) for line in found} == expected, done.stdout
    assert len(found) == len(expected), done.stdout
