"""Where a row comes from: package, commit, versions and machine of the process that computes it."""

import datetime
import functools
import importlib.metadata
import platform
import subprocess
from pathlib import Path

import joblib

from dpnotes import __version__
from dpnotes.lab._places import CHECKOUT


def provenance() -> dict[str, str | None]:
    """Describe this process and the present time (UTC, in seconds)."""
    return {**_process(), "date": f"{datetime.datetime.now(datetime.UTC):%Y-%m-%dT%H:%M:%SZ}"}


@functools.cache
def _process() -> dict[str, str | None]:
    versions = {
        name.replace("-", "_"): importlib.metadata.version(name)  # importing torch only to ask would take seconds
        for name in ("torch", "numpy", "scikit-learn")
    }
    return {
        "dpnotes": __version__,
        "commit": commit(CHECKOUT),
        "python": platform.python_version(),
        **versions,
        "machine": f"{_processor()} ({joblib.cpu_count()} cores)",
    }


def commit(repository: Path) -> str | None:
    """Ten digits of the checked-out commit, with "+" where ``dpnotes/`` differs from it; None outside a checkout."""
    if not (repository / ".git").exists():  # git itself would look in the folders above, and find another project
        return None
    command = ["git", "--no-optional-locks", "-C", str(repository), "status", "--porcelain=v2", "--branch"]
    try:
        status = subprocess.run([*command, "--", "dpnotes"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    head = status.partition("# branch.oid ")[2].partition("\n")[0]
    if not head or head == "(initial)":
        return None
    changed = any(not line.startswith("#") for line in status.splitlines())
    return head[:10] + "+" * changed


def _processor() -> str:
    """Model of the processor, as the system names it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, "") or platform.processor() or platform.machine()
