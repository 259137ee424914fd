"""Type checkers see the parameters of estimators and experiments: a wrong one is an error of mypy."""

import re
import subprocess
import sys

CALLS = """
from dpnotes import ModelSensitivity
from dpnotes.lab.bagging.experiments import private_base

ModelSensitivity(1.0, l2=0.1)
ModelSensitivity("1.0", l2=0.1)  # error
ModelSensitivity(1.0, l2=0.1, foo=1)  # error
private_base(dataset="a", split="test", mode="bare", subsample="9", epsilon=1.0, delta=0.1, l2=0.1, seed=0)  # error
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
