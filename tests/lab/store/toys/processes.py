"""Processes of this machine: what became of them, and those of a Dask cluster."""

import subprocess
import sys
import time

HANG = 300  # seconds: far beyond what a busy machine takes


def wait_until(condition):
    end = time.monotonic() + HANG
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def lines(path):
    return path.read_text().splitlines() if path.exists() else []


def status(pid):
    """State of a process (one letter) and its parent; X and 0 if there is no such process."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            state, parent = file.read().rpartition(")")[2].split()[:2]
        return state, int(parent)
    except (FileNotFoundError, ProcessLookupError):
        return "X", 0


def gone(pid):
    """Whether a process has ended; one that its new parent has not asked for yet has, too."""
    return status(pid)[0] in "ZX"


class Machines:
    """A Dask scheduler and its workers, each a process of its own."""

    def __init__(self, folder, environment):
        self.environment = environment
        self.folder, self.workers, self.scheduler_file = folder, [], folder / "scheduler.json"
        self.scheduler = self._start("scheduler", "--port", "0")

    def _start(self, role, *arguments):
        command = [sys.executable, "-m", "dask", role, "--scheduler-file", str(self.scheduler_file), "--no-dashboard"]
        with (self.folder / f"{role}{len(self.workers)}.log").open("w") as log:
            return subprocess.Popen(
                [*command, "--host", "127.0.0.1", *arguments],
                env=self.environment,
                cwd=self.folder,
                stdout=log,
                stderr=log,
            )

    def start_worker(self):
        self.workers.append(self._start("worker", "--no-nanny", "--nthreads", "1"))

    def alive(self):
        return [worker for worker in self.workers if worker.poll() is None]

    def stop(self):
        for process in [self.scheduler, *self.workers]:
            process.kill()
            process.wait()
