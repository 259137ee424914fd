"""A package reaches another by its public door: no module imports a private module
of another package.
"""

import ast
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PLACES = ("dpnotes", "tests", "benchmarks", "book")
# what one paper needs is built from the same pieces
PART_OF = {"dpnotes.accounting.papers": "dpnotes.accounting"}
TESTS_OF = {
    "tests.faults": "tests.lab.store"  # what a store survives: faults happen inside it
}


def home(module: str) -> str:
    """Package whose business a module's private modules are: ``dpnotes.learners``,
    ``dpnotes.lab.store``.
    """
    parts = module.split(".")
    private = next(
        (i for i, part in enumerate(parts) if part.startswith("_") and i), len(parts)
    )
    package = ".".join(parts[:private])
    return PART_OF.get(package, package)


def private_imports(code: str) -> Iterator[str]:
    """Modules below dpnotes with a private part that the code imports from."""
    for node in ast.walk(ast.parse(code)):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "dpnotes" and any(
                part.startswith("_") and not part.startswith("__") for part in parts
            ):
                yield name


def may_reach(path: Path, home: str) -> bool:
    """Whether a file is of the package, or is the package's own test."""
    own = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    # which happen inside a store
    own = "tests.lab.store.faults" if own == "tests.faults" else own
    package = home.removeprefix("dpnotes").lstrip(".")
    return f"{own}.".startswith(
        (f"{home}.", f"tests.{package}." if package else "tests.")
    )


def code_of(path: Path) -> str:
    if path.suffix == ".py":
        return path.read_text(encoding="utf-8")
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return "\n".join(
        "".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"
    )


FILES = [
    path
    for place in PLACES
    for pattern in ("*.py", "*.ipynb")
    for path in sorted((ROOT / place).rglob(pattern))
]


def test_there_is_something_to_check():
    assert len(FILES) > 100
    found = list(
        private_imports(
            "from dpnotes.learners._sgd import fit\nimport dpnotes.lab._experiment"
        )
    )
    assert found == ["dpnotes.learners._sgd.fit", "dpnotes.lab._experiment"]
    assert not may_reach(ROOT / "tests/lab/test_cli.py", home(found[0]))
    assert may_reach(ROOT / "tests/learners/test_sgd.py", home(found[0]))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_private_modules_are_left_to_their_package(path):
    wrong = [
        name
        for name in private_imports(code_of(path))
        if not may_reach(path, home(name))
    ]
    assert not wrong, f"use the public door of {sorted({home(name) for name in wrong})}"
