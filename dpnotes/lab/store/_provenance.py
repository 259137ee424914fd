"""Where a row comes from: package, commit, versions and machine of the process that
computes it.
"""

import datetime
import functools
import importlib.metadata
import platform
import re
import shutil
import subprocess
from pathlib import Path

import joblib

from dpnotes import __version__
from dpnotes.lab._places import CHECKOUT


def provenance() -> dict[str, str | None]:
    """Describe this process and the present time (UTC, to the second)."""
    return {
        **_process(),
        "date": f"{datetime.datetime.now(datetime.UTC):%Y-%m-%dT%H:%M:%SZ}",
    }


@functools.cache
def _process() -> dict[str, str | None]:
    # importing torch only to ask would take seconds
    libraries = ("torch", "numpy", "scikit-learn")
    versions = {
        name.replace("-", "_"): importlib.metadata.version(name) for name in libraries
    }
    cpu = Path("/proc/cpuinfo")
    # Linux says which processor it is; other systems have a name at best
    model = re.search(
        r"^model name\s*: (.+)$", cpu.read_text() if cpu.exists() else "", re.MULTILINE
    )
    machine = (
        f"{model[1] if model else platform.processor() or platform.machine()}"
        f" ({joblib.cpu_count()} cores)"
    )
    return {
        "dpnotes": __version__,
        "commit": commit(CHECKOUT),
        "python": platform.python_version(),
        **versions,
        "machine": machine,
    }


def commit(repository: Path) -> str | None:
    """Ten digits of the checked-out commit, with "+" where ``dpnotes/`` differs from
    it; None outside a checkout.
    """
    # git itself would look in the folders above
    if not ((repository / ".git").exists() and shutil.which("git")):
        return None
    # without locks, as several processes may ask at once
    git = ["git", "--no-optional-locks", "-C", str(repository)]
    asked = ["status", "--porcelain=v2", "--branch", "--", "dpnotes"]
    status = subprocess.run([*git, *asked], capture_output=True, text=True).stdout
    head = re.search(r"^# branch.oid ([0-9a-f]{10})", status, re.MULTILINE)
    if head is None:  # no commit yet
        return None
    changed = re.search("^[^#]", status, re.MULTILINE)
    return head[1] + "+" * bool(changed)
