"""Toy experiments stand in a module of their own, which worker processes can import."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TOYS = Path(__file__).parent / "toys"
sys.path.insert(0, str(TOYS))  # handed on to worker processes


@pytest.fixture
def store(tmp_path):
    return tmp_path / "toy.csv"


@pytest.fixture(scope="session")
def environment():
    """Environment of a Python process that finds the toys, and this package where this process does."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [str(TOYS), os.environ.get("PYTHONPATH")]))}


@pytest.fixture
def script(environment):
    """Start a Python process that can import the toys; whatever happens, it is gone after the test.

    It takes Ctrl-C for what it is even where the tests themselves run in the background, where shells have it ignored.
    """
    started = []
    heed = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"

    def start(code, *arguments, **settings):
        process = subprocess.Popen(
            [sys.executable, "-c", heed + code, *map(str, arguments)],
            env=environment | settings.pop("env", {}),
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
