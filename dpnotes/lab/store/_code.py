"""The digest of the code that an experiment rests on: what its function reaches in the package, read without running.

The walk goes from the function over the names that it uses, through imports and re-exports, to the top-level statements
that define them. Left out is what changes no row: docstrings, comments, annotations, the texts of exceptions, methods
that only tell of a fit, and in which module a definition stands. A row whose digest is that of today was computed by
the code of today.
"""

import ast
import functools
import hashlib
import io
import re
import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias

from dpnotes.lab._places import CHECKOUT
from dpnotes.lab.store._grid import Experiment

Read: TypeAlias = Callable[[str], str | None]  # source text of a module by its name, None where the tree has none
Chain: TypeAlias = tuple[str, ...]  # parts of a dotted name

_PACKAGE = "dpnotes"
_ASIDE = frozenset(("annotation", "returns", "type_comment", "ctx"))  # fields of a syntax tree that change no row
_TELLING = frozenset(("statement_",))  # methods that tell of a fit and are part of no row
_DIGITS = 12
_ONE = threading.Lock()  # rows are computed in threads too, and ast.parse of CPython 3.11 fails in two at a time


class Tree:
    """The sources of one state of the package; each module is parsed once, when it is reached.

    Parameters
    ----------
    read : callable
        Gives the source text of a module by its name, None if there is no such module.
    """

    def __init__(self, read: Read) -> None:
        self._modules = functools.cache(lambda name: None if (text := read(name)) is None else _Module(name, text))

    def digest(self, module: str, function: str) -> str | None:
        """Twelve hexadecimal digits of all that a function reaches; None if the module does not define it."""
        texts = sorted({text for found in self.reached(module, function).values() for text in found})
        return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:_DIGITS] if texts else None

    def reached(self, module: str, function: str) -> dict[Chain, list[str]]:
        """All dotted names that a function reaches, with the texts that define them; none if it is not defined."""
        start = self._modules(module)
        waiting: list[Chain] = [(*module.split("."), function)] if start and function in start.statements else []
        found: dict[Chain, list[str]] = {}
        while waiting:
            if (chain := waiting.pop()) not in found:
                found[chain], uses = self._reach(chain)
                waiting += uses
        return found

    def _reach(self, chain: Chain) -> tuple[list[str], list[Chain]]:
        """What a dotted name stands for: texts that define it, and the dotted names that these use."""
        for length in range(1, len(chain) + 1):
            if (module := self._modules(".".join(chain[:length]))) is None:
                continue
            if length == len(chain):  # the module is passed on as a whole: all that it binds may be used
                return [], [(*chain, name) for name in (*module.statements, *module.imports)]
            if (name := chain[length]) in module.statements:
                return module.read(name) if length + 1 == len(chain) else ([], [chain[: length + 1]])
            if module.imports.get(name, chain[: length + 1]) != chain[: length + 1]:
                return [], [(*module.imports[name], *chain[length + 1 :])]
        return [".".join(chain)], []  # of another package


class _Module:
    """What a module binds at its top level, by name: statements, and what is imported from where."""

    def __init__(self, name: str, text: str) -> None:
        self.statements: dict[str, list[ast.stmt]] = {}
        self.imports: dict[str, Chain] = {}
        self._always: list[ast.stmt] = []  # statements that bind no name, but may change what others mean
        self._normal: dict[int, tuple[str, list[Chain]]] = {}
        for statement in ast.parse(text).body:
            if isinstance(statement, ast.Import | ast.ImportFrom):
                self.imports |= _imported(statement)
            elif not (_is_text(statement) or _for_types(statement)):
                bound = set(_bound(statement))
                for own in bound:
                    self.statements.setdefault(own, []).append(statement)
                if not bound:
                    self._always.append(statement)

        home = tuple(name.split("."))
        self._names = {**{own: (*home, own) for own in self.statements}, **self.imports}

    def read(self, name: str) -> tuple[list[str], list[Chain]]:
        """Normal forms of the statements that bind ``name``, and the absolute dotted names that they use."""
        texts, chains = [], []
        for statement in (*self.statements[name], *self._always):
            if id(statement) not in self._normal:
                text, uses, imports = _normal(statement)
                known = {**self._names, **imports}  # other names are variables of the statement, or built in
                self._normal[id(statement)] = text, [(*known[use[0]], *use[1:]) for use in uses if use[0] in known]
            texts.append(self._normal[id(statement)][0])
            chains += self._normal[id(statement)][1]
        return texts, chains


def _normal(statement: ast.stmt) -> tuple[str, set[Chain], dict[str, Chain]]:
    """Normal form of a statement, the dotted names that it uses, and what it imports."""
    uses: set[Chain] = set()
    imports: dict[str, Chain] = {}

    def text(value: Any) -> str:
        if isinstance(value, list):
            return f"[{','.join([text(item) for item in value if not _is_aside(item)])}]"
        if not isinstance(value, ast.AST):
            return repr(value)
        if isinstance(value, ast.Import | ast.ImportFrom):
            imports.update(_imported(value))
            return ""  # what it leads to says more
        if chain := _chain(value):
            uses.add(chain)
            return ".".join(chain)
        if isinstance(value, ast.Raise) and isinstance(value.exc, ast.Call):
            return f"raise {text(value.exc.func)}"
        fields = [(name, getattr(value, name, None)) for name in value._fields if name not in _ASIDE]
        return f"{type(value).__name__}({','.join([f'{n}={text(v)}' for n, v in fields if v is not None and v != []])})"

    return text(statement), uses, imports


def _chain(node: ast.AST) -> Chain:
    """Parts of a dotted name; nothing for any other expression."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return (node.id, *reversed(parts)) if isinstance(node, ast.Name) else ()


def _imported(statement: ast.Import | ast.ImportFrom) -> dict[str, Chain]:
    """Names that an import binds, and the dotted names that they stand for."""
    if isinstance(statement, ast.ImportFrom):
        home = tuple((statement.module or "").split("."))
        return {name.asname or name.name: (*home, name.name) for name in statement.names}
    parts = {name: tuple(name.name.split(".")) for name in statement.names}
    return {name.asname or chain[0]: chain if name.asname else chain[:1] for name, chain in parts.items()}


def _bound(statement: ast.stmt) -> Iterator[str]:
    """Names that a top-level statement binds, within branches too but not within functions and classes."""
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from _imported(node)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        else:
            waiting += ast.iter_child_nodes(node)


def _is_aside(node: object) -> bool:
    return _is_text(node) or (isinstance(node, ast.FunctionDef) and node.name in _TELLING)


def _is_text(node: object) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _for_types(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and _chain(statement.test)[-1:] == ("TYPE_CHECKING",)


def code(experiment: Experiment) -> str | None:
    """Digest of the code that an experiment rests on now; None where its source is not to be read."""
    with _ONE:
        return _digest(experiment.__module__, experiment.__qualname__.partition(".")[0])


@functools.cache
def _digest(module: str, function: str) -> str | None:
    tree = _present() if module.startswith(f"{_PACKAGE}.") else Tree(lambda name: _source(name, module))
    return tree.digest(module, function)


@functools.cache
def _present() -> Tree:
    return Tree(_source)


def _source(module: str, loaded: str = "") -> str | None:
    """Source of a module of this package, or of one other that is ``loaded``."""
    if module == loaded:
        file = getattr(sys.modules.get(module), "__file__", None)
        return Path(file).read_text(encoding="utf-8") if file and file.endswith(".py") else None
    if module.partition(".")[0] != _PACKAGE:
        return None
    base = CHECKOUT.joinpath(*module.split("."))
    return next((_with_stub(path) for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()), None)


def _with_stub(path: Path) -> str:
    """Text of a module; that of the package's door lies in a stub, which lists what is imported on first use."""
    stub = path.with_suffix(".pyi")
    return path.read_text(encoding="utf-8") + (stub.read_text(encoding="utf-8") if stub.is_file() else "")


@functools.cache
def code_at(commit: str, experiment: str) -> str | None:
    """Digest of the code that an experiment of this name rested on at a commit; None where it is not to be found.

    An experiment is the function decorated with its name, or, as long as no name was given, ``module.function``.
    """
    if (sources := _committed(commit)) is None:
        return None
    named = re.compile(rf'^@experiment\("{re.escape(experiment)}"\)\n(?:@.*\n)*def (\w+)', re.MULTILINE)
    chapter, _, function = experiment.partition(".")
    places = [(module, found[1]) for module, text in sources.items() if (found := named.search(text))]
    places += [(module, function) for module in sources if module.rpartition(".")[2] == chapter]
    tree = Tree(sources.get)
    return next((digest for place in places if (digest := tree.digest(*place))), None)


@functools.lru_cache(maxsize=4)
def _committed(commit: str) -> dict[str, str] | None:
    """Sources of the package at a commit by the names of their modules; None if the commit is not there or unclean."""
    command = ["git", "-C", str(CHECKOUT), "archive", "--format=tar", commit, _PACKAGE]
    try:
        archive = subprocess.run(command, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    sources: dict[str, str] = {}
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        for member in files:
            if member.isfile() and member.name.endswith((".py", ".pyi")):
                path = PurePosixPath(member.name)
                name = ".".join(path.parent.parts if path.stem == "__init__" else path.with_suffix("").parts)
                content = files.extractfile(member)
                assert content is not None
                sources[name] = sources.get(name, "") + content.read().decode()
    return sources
