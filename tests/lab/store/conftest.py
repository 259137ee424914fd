"""Toy experiments stand in a module of their own, which worker processes can import."""

import sys
from pathlib import Path

import pytest

TOYS = Path(__file__).parent / "toys"
sys.path.insert(0, str(TOYS))  # joblib hands it on to its workers


@pytest.fixture
def store(tmp_path):
    return tmp_path / "toy.csv"


@pytest.fixture
def script(monkeypatch):
    """Start a Python process that can import the toys; whatever happens, it is gone after the test."""
    import os
    import subprocess

    started = []

    def start(code, *arguments, **settings):
        environment = os.environ | {"PYTHONPATH": str(TOYS)} | settings.pop("env", {})
        process = subprocess.Popen(
            [sys.executable, "-c", code, *map(str, arguments)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **settings,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()
