"""What all tests and the examples in docstrings share; and what a test needs that a new
machine does not have.

A test that needs a data set, a browser, a GPU, the built pages or a library of an
optional extra says so with a marker, ``@pytest.mark.needs("mnist", "browser")``. It is
skipped where one of these is not here, and the end of a run says how to get it. In
``needs("{name}")`` the name is the test's own parameter ``name``. ``make setup`` brings
everything else.
"""

import os
import shutil
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import matplotlib
import pytest
from hypothesis import settings

ROOT = Path(__file__).parent
# the package of this checkout is tested, whichever is installed
sys.path.insert(0, str(ROOT))

matplotlib.use("agg")  # no test opens a window

# a deadline for each example would measure how busy the machine is
# whether a commit is green is no matter of luck
settings.register_profile("dpnotes", deadline=None, derandomize=True)
# new examples each time: HYPOTHESIS_PROFILE=campaign
settings.register_profile("campaign", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dpnotes"))

BIN = os.path.relpath(Path(sys.executable).parent)
# what to do where something is missing that is neither a data set nor a library
REMEDIES = {
    "browser": (
        f"install Chromium or Chrome, or run `{BIN}/playwright install chromium`"
    ),
    "gpu": "run them on a machine with CUDA",
    "node": "install Node.js, which runs the JavaScript of the figures",
    "pages": f"{BIN}/dpnotes build",
}


@cache
def is_here(name: str) -> bool:
    """Whether a test can have what it needs."""
    # of a library that is old, or of a driver that is
    with warnings.catch_warnings(action="ignore"):
        return _is_here(name)


def _is_here(name: str) -> bool:
    from dpnotes import data

    if name == "browser":
        return _browser_reads_files()
    if name == "gpu":
        import torch

        return torch.cuda.is_available()
    if name == "node":
        return shutil.which("node") is not None
    if name == "pages":
        return (ROOT / "_build" / "html" / "index.html").is_file()
    if name in data.NAMES:
        return not data.absent([name])
    raise pytest.UsageError(
        f"needs({name!r}): not a data set, and none of {', '.join(REMEDIES)}"
    )


def _browser_reads_files() -> bool:
    """A program of that name may be a stub, lack libraries of the system, or be shut
    off from files, as snaps are.
    """
    from playwright.sync_api import Error

    from dpnotes import _chromium

    picture = ROOT / "book" / "_static" / "tradeoff.svg"
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(shutil.copy(picture, folder))
        try:
            with _chromium.browser() as opened:
                tab = opened.new_page()
                for path in (picture, copy):
                    tab.goto(path.as_uri())
                    if tab.evaluate("document.documentElement.tagName") != "svg":
                        return False
                return True
        except (RuntimeError, Error):
            return False


def remedy(name: str) -> str:
    """What a person does to have a test run that was skipped."""
    return REMEDIES.get(name) or f"{BIN}/dpnotes data fetch {name}"


@pytest.fixture(
    params=["pretended", pytest.param("real", marks=pytest.mark.needs("gpu"))]
)
def gpu(request: pytest.FixtureRequest) -> Iterator[SimpleNamespace]:
    """A GPU: one that is pretended on the CPU and, where there is one, a real one.

    ``launches`` counts what a pretended GPU was given, and is None for a real one;
    ``tolerance`` is how far results may lie from those of the CPU.
    """
    if request.param == "real":
        yield SimpleNamespace(launches=None, tolerance=1e-7)
        return
    from tests.pretended import pretended_gpu

    with pretended_gpu() as pretended:
        yield pretended


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--have "mnist browser"``: tests that need these must not be skipped unseen."""
    parser.addoption(
        "--have",
        default="",
        metavar="NAMES",
        help="what must be here: an error if it is not",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Refuse to begin without what ``--have`` names."""
    if missing := [
        name for name in config.getoption("--have").split() if not is_here(name)
    ]:
        raise pytest.UsageError(f"--have: not here: {', '.join(missing)}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests that need what is not here."""
    for item in items:
        given = item.callspec.params if hasattr(item, "callspec") else {}
        names = [
            name.format_map(given)
            for marker in item.iter_markers("needs")
            for name in marker.args
        ]
        if missing := [name for name in dict.fromkeys(names) if not is_here(name)]:
            item.user_properties += [("needs", name) for name in missing]
            item.add_marker(pytest.mark.skip(reason=f"needs {', '.join(missing)}"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line for each cause of skipped tests, and what to do about it."""
    skipped = terminalreporter.stats.get("skipped", [])
    told = [
        (
            report,
            dict.fromkeys(name for _, name in getattr(report, "user_properties", ())),
        )
        for report in skipped
    ]
    missing = Counter(name for _, names in told for name in names)
    others = Counter(
        report.longrepr[2].removeprefix("Skipped: ")
        for report, names in told
        if not names
    )
    if skipped:
        terminalreporter.section("skipped")
    for name, count in missing.most_common():
        terminalreporter.line(
            f"{count} test{'s need' if count > 1 else ' needs'} {name}: {remedy(name)}"
        )
    for reason, count in others.most_common():
        terminalreporter.line(f"{count} skipped: {reason}")
    if missing:
        terminalreporter.line("Then `make test-more` runs the tests that were skipped.")


@pytest.fixture(scope="session")
def repository() -> Path:
    """Root of the checkout."""
    return ROOT


@pytest.fixture(autouse=True)
def _names_of_examples(request: pytest.FixtureRequest) -> None:
    """Give examples in docstrings a folder ``tmp`` to write to."""
    if isinstance(request.node, pytest.DoctestItem):
        request.getfixturevalue("doctest_namespace")["tmp"] = request.getfixturevalue(
            "tmp_path"
        )
