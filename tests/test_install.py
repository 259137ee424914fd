"""Every command that says how to install the package, typed as it is printed,
without a network.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import lazy_loader
import pytest
from hatchling.builders.sdist import SdistBuilder

import dpnotes
from dpnotes._extras import install_command

WHEEL = f"dpnotes-{dpnotes.__version__}-py3-none-any.whl"
# what every notebook that runs on its own says; ROWS follows where it reads published
# rows
NOTEBOOK = (
    "This notebook needs Python 3.11 or newer and the package. In a clone of the"
    " repository, `make setup` installs the "
    "package into `.venv`. To install it into an environment of your own, run "
    '`pip install ".[book]"` in the clone. On a machine without a clone, install the'
    " package from its wheel, a single "
    "file that `make wheel` builds in a clone elsewhere. Put the wheel next to this"
    " notebook and run "
    f'`pip install "{WHEEL}[book]"`. No other file of the book is needed.'
)
ROWS = " The published rows come with the package."
OFFLINE = (
    "--isolated",
    "--quiet",
    "--no-compile",
    "--no-deps",
    "--no-build-isolation",
    "--no-index",
)
ADDRESS = "https://git.example.org/owner/name"
NOT_TYPED_TODAY = (
    "CHANGELOG.md",
    ".github/RELEASING.md",
    "dpnotes/_extras.py",
    "tests/",
)
ASK = """
import site, sys
site.addsitedir(sys.argv[1])
sys.path.append(sys.argv[2])  # where what the package needs is, behind it
import dpnotes
from dpnotes._extras import install_command
print(dpnotes.__version__, dpnotes.__file__, install_command("learn"), sep="\\n")
"""


@pytest.fixture(scope="module")
def files(repository):
    """What git would list, also where there is no git; without environments of a
    developer's own.
    """
    listed = [
        repository / file.relative_path
        for file in SdistBuilder(str(repository)).recurse_included_files()
    ]
    environments = [settings.parent for settings in repository.glob("*/pyvenv.cfg")]
    listed = [
        path
        for path in listed
        if not any(path.is_relative_to(folder) for folder in environments)
    ]
    return [
        *listed,
        *(path for path in (repository / ".github").rglob("*") if path.is_file()),
    ]


@pytest.fixture(scope="module")
def clone(files, repository, tmp_path_factory):
    """The sources in another folder, whose name has a space."""
    folder = tmp_path_factory.mktemp("sources") / "a clone"
    for file in files:
        copy = folder / file.relative_to(repository)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
    return folder


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A home folder, in which nothing is but what a test lays there."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def run(home):
    """Run a program in a folder, in an environment that has nothing to do with this
    process's.
    """

    def run(folder, *command):
        ours = re.compile(r"(DPNOTES|PIP|UV|GIT|XDG|MAKE|PYTHON)[A-Z_]*|MFLAGS")
        env = {
            name: value
            for name, value in os.environ.items()
            if not ours.fullmatch(name)
        }
        env |= {"HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1"}
        done = subprocess.run(
            [*map(str, command)],
            cwd=folder,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="module")
def ask(run):
    """File of the package that a folder of packages has, and the command that it
    gives in a working directory.
    """

    def ask(target, folder):
        needed = Path(lazy_loader.__file__).parents[1]
        version, file, command = run(
            folder, sys.executable, "-I", "-S", "-c", ASK, target, needed
        ).splitlines()
        assert version == dpnotes.__version__
        return file, command

    return ask


@pytest.fixture(scope="module")
def install(run, ask, tmp_path_factory):
    """Type a command in a folder: the packages it installed, and what the package
    says elsewhere.
    """

    def install(command, folder):
        pip, verb, *words = shlex.split(command)
        assert (pip, verb) == ("pip", "install")
        target = tmp_path_factory.mktemp("target")
        run(
            folder,
            sys.executable,
            "-m",
            "pip",
            "install",
            *OFFLINE,
            "--target",
            target,
            *words,
        )
        return target, *ask(target, target)

    return install


@pytest.fixture(scope="module")
def copied(install, clone):
    return install('pip install ".[book]"', clone)


def test_a_clone_is_installed_as_pages_say(copied, clone, ask):
    target, file, command = copied
    assert file == str(target / "dpnotes" / "__init__.py")
    assert command == f'pip install "{clone}[learn]"'
    assert ask(target, clone)[1] == 'pip install ".[learn]"'


def test_a_clone_stays_editable(install, clone, ask):
    used = str(clone / "dpnotes" / "__init__.py")
    assert ask(clone, clone.parent) == (used, f'pip install -e "{clone}[learn]"')
    file, command = ask(clone, clone)
    assert (file, command) == (used, 'pip install -e ".[learn]"')
    assert install(command, clone)[1:] == (used, f'pip install -e "{clone}[learn]"')


def test_make_wheel_prints_the_command_of_its_wheel(install, run, clone):
    (clone / ".venv").symlink_to(sys.prefix)
    printed = run(clone, "make", "-o", "setup", "wheel")
    (clone / ".venv").unlink()
    command = printed.splitlines()[-1].removeprefix("to install it elsewhere: ")
    assert command == f'pip install "dist/{WHEEL}[book]"'
    (of_notebooks,) = re.findall(r'`(pip install "dpnotes[^`]+)`', NOTEBOOK)
    for typed, folder in ((command, clone), (of_notebooks, clone / "dist")):
        target, file, again = install(typed, folder)
        assert file == str(target / "dpnotes" / "__init__.py")
        assert again == f'pip install "{clone / "dist" / WHEEL}[learn]"'
    assert install(again, target)[2] == again


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_a_repository_is_installed_from_its_address(
    install, run, clone, home, monkeypatch
):
    """Git is told that the address is a folder; what is typed names the address."""
    run(clone, "git", "init", "--quiet")
    run(clone, "git", "checkout", "--quiet", "-b", "release/1")
    run(clone, "git", "add", "--all")
    run(
        clone,
        "git",
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@b.c",
        "commit",
        "--quiet",
        "--message",
        "all",
    )
    (home / ".gitconfig").write_text(
        f'[url "file://{clone}"]\n\tinsteadOf = {ADDRESS}\n'
    )
    monkeypatch.setenv("DPNOTES_REPOSITORY", f"{ADDRESS}@release/1")
    command = install_command("book")
    assert command == f'pip install "dpnotes[book] @ git+{ADDRESS}@release/1"'
    target, file, again = install(command, home)
    assert file == str(target / "dpnotes" / "__init__.py")
    assert (
        again == 'pip install "dpnotes[learn] @'
        f' git+{ADDRESS}@{run(clone, "git", "rev-parse", "HEAD").strip()}"'
    )
    assert install(again, home)[2] == again


@pytest.mark.parametrize(
    ("record", "source"),
    [
        (
            '{"url": "https://host/a.whl", "archive_info": {}}',
            "dpnotes[learn] @ https://host/a.whl",
        ),
        (None, "dpnotes[learn]"),  # from a registry
        ("{", "dpnotes[learn]"),
        ("[]", "dpnotes[learn]"),
    ],
)
def test_other_records(copied, ask, tmp_path, record, source):
    target = shutil.copytree(
        copied[0],
        tmp_path / "target",
        ignore=shutil.ignore_patterns("lab", "direct_url.json"),
    )
    if record is not None:
        next(target.glob("*.dist-info")).joinpath("direct_url.json").write_text(record)
    assert ask(target, tmp_path)[1] == f'pip install "{source}"'


@pytest.mark.parametrize(
    "address", ["", "github.com/owner/name", "git@host:owner/name"]
)
def test_without_an_address_it_is_the_checkout(repository, monkeypatch, address):
    monkeypatch.setenv("DPNOTES_REPOSITORY", address)
    monkeypatch.chdir(repository)
    assert install_command("pdf") == 'pip install -e ".[pdf]"'


def test_notebooks_say_how_they_are_run(repository):
    hint = re.compile(
        r"\{admonition\} To run this notebook\n:class: tip dropdown\n(.*)\n```"
    )
    said = {}
    for path in sorted((repository / "book").rglob("*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        if found := hint.search("\n".join("".join(cell["source"]) for cell in cells)):
            said[path.name] = found[1]
    assert len(said) > 15
    assert {
        name: text
        for name, text in said.items()
        if text not in (NOTEBOOK, NOTEBOOK + ROWS)
    } == {}
    assert 5 < sum(text.endswith(ROWS) for text in said.values()) < len(said)


def test_the_wheel_is_named_as_it_is_built(files, repository):
    for path in files:
        if (name := path.relative_to(repository).as_posix()).startswith(
            ("README", "book/")
        ):
            named = re.findall(rb"dpnotes-[\w.]+-py3-none-any\.whl", path.read_bytes())
            assert set(named) <= {WHEEL.encode()}, name


def test_no_text_asks_a_registry(files, repository):
    """No registry has the package today."""
    asks = re.compile(r"pip install (?:-\S+ )*(?:\\?[\"'])?dpnotes(?![\w.-])")
    found = []
    for path in files:
        name = path.relative_to(repository).as_posix()
        text = path.read_bytes().decode("utf-8", errors="replace")
        if not name.startswith(NOT_TYPED_TODAY):
            found += [
                f"{name}: {line.strip()}"
                for line in text.splitlines()
                if asks.search(line)
            ]
    assert found == []
