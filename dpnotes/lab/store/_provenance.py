"""Where a row comes from (package, commit, versions and machine of the process that computes it), and where it is kept.

Stores lie in two folders: results that are published with the book, and new runs.
"""

import datetime
import functools
import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path

import joblib

from dpnotes import __version__

REPOSITORY = Path(__file__).resolve().parents[3]  # the checkout, or site-packages where the package is installed


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
        "version": __version__,
        "commit": commit(REPOSITORY),
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


def published_store(name: str) -> Path:
    """File of the published rows, ``book/results/<name>.csv`` of the checkout that the package is used from.

    Parameters
    ----------
    name : str
        Name of the store, a single part of a path (``"bagging_table2a"``).

    Raises
    ------
    FileNotFoundError
        If the package is installed without the book.
    """
    folder = REPOSITORY / "book" / "results"
    if not folder.is_dir():
        raise FileNotFoundError(
            f"the published results are not there ({folder}): they come with a checkout of the repository, "
            "not with the installed package; clone it and install it with pip install -e"
        )
    return folder / f"{name}.csv"


def runs_store(name: str) -> Path:
    """File of new rows: ``<name>.csv`` in the folder ``$DPNOTES_RUNS``, or in ``runs/`` of the checkout.

    Neither the file nor its folder need exist.

    Parameters
    ----------
    name : str
        Name of the store, a single part of a path.

    Raises
    ------
    FileNotFoundError
        If the package is installed without the book and ``DPNOTES_RUNS`` is not set.
    """
    if folder := os.environ.get("DPNOTES_RUNS"):
        return Path(folder).expanduser() / f"{name}.csv"
    if not (REPOSITORY / "book").is_dir():
        raise FileNotFoundError("no checkout of the repository to keep runs in; set DPNOTES_RUNS to a folder for them")
    return REPOSITORY / "runs" / f"{name}.csv"
