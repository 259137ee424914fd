"""A few faults of each cheap kind; all of them, many times, are tried by ``make campaign``."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
def test_no_fault_costs_a_row():
    command = [sys.executable, "-m", "tests.faults", "--fraction", "0.05", "writer", "disk", "folder", "foreign"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 rows lost" in done.stdout.splitlines()[-1]
