"""The toys of the store's unit tests, found here and by worker processes."""

import sys
from pathlib import Path

TOYS = Path(__file__).parents[1] / "lab" / "store" / "toys"
if str(TOYS) not in sys.path:
    sys.path.insert(0, str(TOYS))  # handed on to worker processes

import sweep_toys as sweep_toys  # noqa: E402
from processes import Machines as Machines  # noqa: E402
from processes import gone as gone  # noqa: E402
from processes import lines as lines  # noqa: E402
from processes import status as status  # noqa: E402
from processes import wait_until as wait_until  # noqa: E402
