"""Kill `make setup` at ten moments, let it heal, and build the book: ``python tests/setup_kills.py`` prints each.

In a clone of the checkout, in a folder of its own; `make setup` has to be able to install. The moments are fractions of
the time that one undisturbed setup takes, so that they fall into each of its steps.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MOMENTS = (0.02, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.85, 0.97)
FAST = ("COMPILE=",)  # packages are compiled when they are imported, or not at all
CHECKOUT = Path(__file__).resolve().parents[1]


def main() -> None:
    """Print a line for each moment; exit code 1 if a setup did not heal."""
    with tempfile.TemporaryDirectory() as temporary:
        clone = Path(temporary) / "dpnotes"
        subprocess.run(["git", "clone", "--quiet", str(CHECKOUT), str(clone)], check=True)
        make(clone, "setup")  # fills the caches
        shutil.rmtree(clone / ".venv")
        start = time.perf_counter()
        make(clone, "setup")
        whole = time.perf_counter() - start
        print(f"undisturbed: {whole:.0f} s")
        for moment in MOMENTS:
            shutil.rmtree(clone / ".venv")
            state = killed(clone, moment * whole)
            start = time.perf_counter()
            make(clone, "setup")
            seconds = time.perf_counter() - start
            subprocess.run([".venv/bin/python", "-m", "dpnotes", "run", "benchmarks"], cwd=clone, check=True)
            make(clone, "book")
            print(f"killed after {moment * whole:.0f} s ({state}): healed in {seconds:.0f} s, book built", flush=True)


def make(clone: Path, target: str) -> None:
    """Run a target; its output is shown if it fails."""
    done = subprocess.run(["make", target, *FAST], cwd=clone, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"make {target} failed:\n{done.stdout}{done.stderr}")


def killed(clone: Path, seconds: float) -> str:
    """Kill `make setup` and all that it started after these seconds; give what it left, in words."""
    setup = subprocess.Popen(["make", "setup", *FAST], cwd=clone, stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        setup.wait(seconds)
    except subprocess.TimeoutExpired:
        os.killpg(setup.pid, signal.SIGKILL)
        setup.wait()
    venv = clone / ".venv"
    if (venv / ".installed").is_file():
        return "it was finished"
    packages = len(list(venv.glob("lib/*/site-packages/*.dist-info")))
    return f"{packages} packages" if venv.is_dir() else "no .venv"


if __name__ == "__main__":
    main()
