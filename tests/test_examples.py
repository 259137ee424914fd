"""The README and the pages that it leads to: every block of code is executed, as the
reader would execute it.
"""

import os
import re
import shlex
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import click
import distributed
import pytest

from dpnotes.data import NAMES
from dpnotes.lab import backlog, chapters, cli

ROOT = Path(__file__).parents[1]
PAGES = (
    "README.md",
    "book/index.md",
    "book/running.md",
    "book/library.md",
    "book/recipes.md",
)
# What the blocks use of a clone. With links to everything here, a block could write
# over a developer's own file.
ENTRIES = (
    "Makefile",
    "_config.yml",
    "_toc.yml",
    "book",
    "constraints.txt",
    "dpnotes",
    "pyproject.toml",
    "requirements.txt",
)
MADE = ("_build", "runs", "dist", ".venv", "mybook")  # folders that commands make
# Budgets in seconds are for readers; a test counts.
COUNTED = {
    "dpnotes.compare(": ("repeats=10", "repeats=2"),
    "dpnotes.audit(": ("seconds=30", "runs=4000"),
    "dpnotes compare ": ("--repeats 10", "--repeats 2"),
    "dpnotes audit ": ("--seconds 30", "--runs 400"),
}
# What blocks print: words of the block, the least score on the first line, words of the
# output. Noise is unseeded; tests/test_preprocessing.py has the pipeline with a seed.
# In 80 fits, NoisyBoosting had at least 0.78; in 25, PATE 0.66.
PRINTED = [
    ("fit(X[:400], y[:400]).publish()", 0.6, "PrivacyProfile of gaussian("),
    (
        "Bagging(subsample=100",
        0.7,
        "PrivacyProfile of bagging(n=1500, subsample=100, n_models=5",
    ),
    ("LossPerturbation(epsilon=2.0", 0.0, "PrivacyProfile of approximate(epsilon=2.0"),
    ("set_fit_request(", 0.4, "PrivacyProfile of gnmax("),
    ("dpnotes.compare(", None, "calibration error"),
    ("dpnotes.audit(", None, "The claim is REFUTED"),
    (
        "scale = PublicScaler(",
        0.5,
        "assuming: the divisor of the loss and norm=1 are public",
    ),
    # without CIFAR-10; tests/lab/store/test_sweep.py computes rows on a cluster
    ("dask", None, "0 results finished"),
]
WRITTEN = {
    "README.md": [],
    "book/index.md": [],
    "book/running.md": ["my_bagging.ipynb", "out.ipynb"],
    "book/library.md": ["noise.html", "release.html", "release.joblib"],
    "book/recipes.md": [],
}


@dataclass(frozen=True)
class Block:
    """A block of code between fences, of a page below the root, and the line that it
    begins on.
    """

    page: str
    line: int
    language: str
    code: str
    output: str = ""

    def __str__(self):
        return f"{self.page}:{self.line}"

    @property
    def file(self):
        """Name of the file that a reader saves it in, if its first line says so."""
        named = re.match(r"# ([\w-]+\.(?:py|toml))\n", self.code)
        return named and named[1]

    @property
    def commands(self):
        """Lines of a shell, each without the comment at its end."""
        return [re.sub(r"\s+# .*", "", line) for line in self.code.splitlines()]

    @property
    def printed(self):
        """Pattern of the shown output: three dots are any text, a line that ends in
        "for example" has any numbers.
        """
        lines = []
        for line in self.output.splitlines():
            fixed, example, _ = line.partition(", for example")
            pattern = re.escape(fixed).replace(r"\.\.\.", ".*")
            lines.append(
                re.sub(r"\d+(\\\.\d+)?", r"[\\d.]+", pattern) if example else pattern
            )
        return "\n".join(lines) + "\n"


def text_of(page):
    return (ROOT / page).read_text(encoding="utf-8")


def blocks_of(page):
    """Blocks of a page in order; directives of the book are none."""
    text = text_of(page)
    return [
        Block(
            page,
            text.count("\n", 0, found.start()) + 2,
            found[1],
            found[2],
            found[3] or "",
        )
        for found in re.finditer(
            r"^```(\w+)\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?", text, re.M | re.S
        )
    ]


BLOCKS = [block for page in PAGES for block in blocks_of(page)]
PYTHON, SHELL = (
    [block for block in BLOCKS if block.language == language]
    for language in ("python", "bash")
)


def spans(page):
    """Code within the sentences of a page."""
    return re.findall(
        r"(?<!`)`([^`\n]+)`(?!`)",
        re.sub(r"^```.*?^```$", "", text_of(page), flags=re.M | re.S),
    )


def counted(code):
    """Code with counted budgets."""
    for words, (timed, instead) in COUNTED.items():
        if words in code:
            assert timed in code
            code = code.replace(timed, instead)
    # which has no data here, and so nothing to do
    assert "seconds" not in code or "backlog" in code
    return code


# --- Python


@pytest.fixture
def bare(tmp_path, monkeypatch):
    """An empty working directory and home, without data sets."""
    monkeypatch.chdir(tmp_path)
    for name in ("HOME", "XDG_CACHE_HOME", "DPNOTES_DATA", "DPNOTES_RUNS"):
        monkeypatch.setenv(name, str(tmp_path / "home" / name))
    return tmp_path


@pytest.fixture
def scheduler():
    """Address of a cluster in this process."""
    with distributed.LocalCluster(
        1, processes=False, dashboard_address=None
    ) as cluster:
        yield cluster.scheduler_address


@pytest.mark.filterwarnings("ignore::DeprecationWarning:distributed")
# without a network
@pytest.mark.filterwarnings(
    "ignore:Couldn't detect a suitable IP address:RuntimeWarning"
)
@pytest.mark.parametrize("block", PYTHON, ids=str)
def test_python_runs(block, bare, capsys, request):
    code = counted(block.code)
    if "tcp://scheduler:8786" in code:
        code = code.replace(
            "tcp://scheduler:8786", request.getfixturevalue("scheduler")
        )
    exec(compile(code, str(block), "exec"), {"__name__": "__main__"})
    printed = capsys.readouterr().out
    assert not block.output or re.fullmatch(block.printed, printed, re.S), printed
    for words, least, said in PRINTED:
        if words in block.code:
            assert said in printed
            assert least is None or least <= float(printed.splitlines()[0]) <= 1
    if "Example Clinic" in block.code:
        assert "Example Clinic" in (bare / "statement.html").read_text(encoding="utf-8")


def test_what_is_said_of_blocks_is_of_one():
    codes = [block.code for block in BLOCKS]
    for words in (*COUNTED, *(words for words, _, _ in PRINTED), "statement.html"):
        assert sum(words in code for code in codes) == 1, words


# --- the shell


def parsed(command):
    """What click reads in a command; nothing runs. An unknown word, or a file that
    is not there, fails.
    """
    program, *words = shlex.split(command)
    assert program == "dpnotes"
    found, context = cli.main, click.Context(cli.main)
    while isinstance(found, click.Group):
        assert words, command
        found, words = found.get_command(context, words[0]), words[1:]
        assert found is not None, command
    return found.make_context(command, words).params


def a_target_of_make(command, folder):
    subprocess.run(
        ["bash", "-ec", re.sub(r"\bmake\b", "make -n", command)],
        cwd=folder,
        check=True,
        capture_output=True,
    )


def a_data_set(command, folder):
    assert {*parsed(command)["names"]} <= {*NAMES}


def a_run_of_a_chapter(command, folder):
    given = parsed(command)
    assert chapters.chapter(given["chapter"]).check(dict(given["given"]))


def a_command(command, folder):
    parsed(command)


def a_run_of_experiments(command, folder):
    backlog.chosen(parsed(command)["names"])


def a_notebook(command, folder):
    assert (folder / shlex.split(command)[-1]).is_file()


def nothing(command, folder):
    """Another test, or the next command, has it."""


NOT_RUN = {  # commands that begin so cannot be run in a test: what is checked instead
    r"(\w+=\S+ )?make ": a_target_of_make,  # minutes
    # the interpreter of the tests is first on the path
    r"\. \.venv/bin/activate$": nothing,
    r"pip install ": nothing,  # tests/test_install.py; test_what_is_installed_exists
    r"dpnotes (book|build)\b": a_command,  # needs the wheel; minutes
    r"cd mybook$": nothing,  # which `dpnotes book` makes
    r"dpnotes data fetch ": a_data_set,  # needs a network
    r"dpnotes run .*subsample_sizes": a_run_of_a_chapter,  # needs MNIST; minutes
    r"dpnotes results run\b": a_run_of_experiments,  # hours
    r"dpnotes results (adopt|verify)\b": a_command,  # writes to book/results; hours
    r"jupyter lab ": a_notebook,  # opens a browser
}


def test_shell_runs(tmp_path):
    """All pages in one sitting: what one of them has executed, another finds
    unchanged.
    """
    home = tmp_path / "home"
    ours = re.compile(r"DPNOTES_|MAKE|MFLAGS|XDG_|PYTEST_")
    env = {name: value for name, value in os.environ.items() if not ours.match(name)}
    env |= {
        "HOME": str(home),
        "XDG_CACHE_HOME": str(home / "cache"),
        "DPNOTES_RUNS": str(tmp_path / "runs"),
    }
    env |= {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}",
        "PYTHONPATH": str(ROOT),
    }
    home.mkdir()
    for page in PAGES:
        folder = tmp_path / page.replace("/", " ")
        folder.mkdir()
        for name in ENTRIES:
            (folder / name).symlink_to(ROOT / name)
        for block in blocks_of(page):
            if block.file:
                (folder / block.file).write_text(block.code, encoding="utf-8")
            if block.language == "bash":
                run(block, folder, env)
        assert [name for name in WRITTEN[page] if not (folder / name).is_file()] == []
    # with parameters of their own
    executed = {path.stem for path in (tmp_path / "runs").glob("*-??????.ipynb")}
    assert {"bagging", "dpbag"} <= {name[:-7] for name in executed}
    assert executed <= {path.stem for path in (tmp_path / "runs" / "html").iterdir()}


def run(block, folder, env):
    """Run a block up to the first command that fails, without those that cannot be
    run.
    """
    lines, checks = block.code.splitlines(), []
    for number, command in enumerate(block.commands):
        if check := next(
            (check for start, check in NOT_RUN.items() if re.match(start, command)),
            None,
        ):
            checks.append((check, command))
            lines[number] = ""
    script = "\n".join(map(counted, lines))
    done = subprocess.run(
        ["bash", "-ec", script],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (
        f"{block}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    )
    # now that the files are there which other commands of the block made
    for check, command in checks:
        check(command, folder)


def test_every_exception_is_needed():
    commands = [command for block in SHELL for command in block.commands]
    for start in NOT_RUN:
        assert any(re.match(start, command) for command in commands), start


# --- what the sentences name


def test_the_readme_is_short():
    """A stranger reads it in one go; what is longer is a page of the book."""
    sections = text_of("README.md").split("\n## ")
    assert text_of("README.md").count("\n") <= 120
    assert [s.splitlines()[0] for s in sections[1:]] == [
        "Two commands",
        "Read the book",
        "Re-run a chapter",
        "Use the library",
        "Where things are",
    ]
    assert all(sum(map(bool, section.splitlines())) <= 15 for section in sections[1:])


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[\w-]+)?\)", text_of(page))
    assert targets
    labels = {f"({target})=" for target in targets} & set(
        "\n".join(map(text_of, PAGES)).splitlines()
    )
    for target in targets:
        if not target.startswith("https://") and f"({target})=" not in labels:
            assert (ROOT / page).parent.joinpath(target).exists(), target


@pytest.mark.parametrize("page", PAGES)
def test_paths_are_there(page):
    for path in (
        span for span in spans(page) if re.fullmatch(r"[\w.-]+(/[\w.-]*)+", span)
    ):
        if path.split("/")[0] not in MADE:
            assert (ROOT / path).exists(), path


@pytest.mark.parametrize("page", PAGES)
def test_commands_in_sentences_are_known(page):
    makefile = text_of("Makefile")
    for span in spans(page):
        if target := re.search(r"(?:^| )make (\w+)", span):
            assert re.search(rf"^{target[1]}:", makefile, re.M), span
        elif span.startswith("dpnotes ") and span != "dpnotes ":
            names = [word for word in span.split()[1:] if re.fullmatch(r"[a-z]+", word)]
            found, context = cli.main, click.Context(cli.main)
            while isinstance(found, click.Group) and names:
                found = found.get_command(context, names.pop(0))
            assert found is not None, span
            known = {option for parameter in found.params for option in parameter.opts}
            assert set(re.findall(r"--\w+", span)) <= known, span


@pytest.mark.parametrize("page", PAGES)
def test_what_is_installed_exists(page):
    """Extras; tests/test_install.py has the wheel."""
    extras = tomllib.loads(text_of("pyproject.toml"))["project"][
        "optional-dependencies"
    ]
    text = text_of(page)
    for named in re.findall(r"pip install [^\n`]*\[([\w,]+)\]", text):
        assert set(named.split(",")) <= set(extras), named
