"""What one meets first: import, version, files beside it, types of parameters; the
README is in test_examples.py.
"""

import re
import subprocess
import sys
import tomllib
from importlib import metadata

import pytest

import dpnotes
from dpnotes._extras import EXTRAS, install_command

HIDDEN = """
import sys

class Hide:  # an import hook that finds what another one does, apart from some libraries
    def __init__(self, finder, hidden):
        self.finder, self.hidden = finder, hidden

    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in self.hidden else self.finder.find_spec(name, path, target)

hidden = set(sys.argv.pop().split(","))
sys.meta_path[:] = [Hide(finder, hidden) for finder in sys.meta_path]
"""


def test_import_is_cheap():
    """None of the heavy libraries is imported."""
    code = """
import sys
import dpnotes
assert "numpy" not in sys.modules
import dpnotes.accounting
heavy = {"torch", "seaborn", "opacus", "sklearn", "pandas", "matplotlib"} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_names_of_the_package():
    assert dpnotes.Bagging is not None
    assert dpnotes.accounting.bagging is not None
    assert {"Bagging", "accounting"} <= set(dir(dpnotes))
    with pytest.raises(AttributeError, match="Baging"):
        _ = dpnotes.Baging


def without(libraries, code):
    """Run code in an interpreter in which libraries are not installed."""
    command = [sys.executable, "-c", HIDDEN + code, ",".join(libraries)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_accounting_needs_no_extra():
    code = """
import dpnotes
from dpnotes.accounting import compose, dp_sgd, gaussian, gaussian_sigma, laplace
from dpnotes.mechanisms import vote_counts
composed = compose(gaussian(sigma=gaussian_sigma(1.0, 1e-5)), laplace(scale=2.0))
print(1.0 < composed.epsilon(1e-5) < 1.5, dp_sgd(noise_multiplier=1.0, sample_rate=0.1, steps=10).epsilon(1e-5) > 1)
"""
    assert without(EXTRAS["book"], code).stdout.split() == ["True", "True"]


@pytest.mark.parametrize(
    ("statement", "extra", "hidden"),
    [
        ("dpnotes.Bagging", "learn", "torch"),
        ("from dpnotes.methods import Bagging", "learn", "sklearn"),
        ("import dpnotes.learners", "learn", "torch"),
        ("dpnotes.data.load('digits')", "learn", "pandas"),
        ("import dpnotes.lab.own_training", "learn", "torch"),
        ("import dpnotes.lab.chapters", "book", "papermill"),
        ("import dpnotes.lab.store", "book", "seaborn"),
    ],
)
def test_missing_extra_says_which_command_installs_it(statement, extra, hidden):
    done = without([hidden], f"import dpnotes\n{statement}")
    assert done.returncode == 1
    assert (
        f"needs the extra [{extra}]: {install_command(extra)} (not installed: {hidden})"
        in done.stderr
    )


COMMAND = "import sys\nfrom dpnotes.__main__ import main\nsys.argv[1:] = {}\nmain()"


@pytest.mark.parametrize(
    "arguments", [["--help"], ["guarantee", "gaussian", "--sigma", "2"]]
)
def test_these_commands_need_no_extra(arguments):
    done = without(EXTRAS["book"], COMMAND.format(arguments))
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "arguments",
    [["data", "status"], ["compare", __file__, "--epsilon", "1", "--public"]],
)
def test_a_command_without_its_extra_is_one_line(arguments):
    done = without(["torch"], COMMAND.format(arguments))
    message = f"the extra [learn]: {install_command('learn')} (not installed: torch)"
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith("Error: dpnotes.data needs")
    assert message in done.stderr


def test_foreseen_faults_of_a_table_are_told_without_importing_torch(tmp_path):
    (tmp_path / "few.csv").write_text("a,b\n1,2\n")
    table = str(tmp_path / "few.csv")
    for arguments in (
        ["compare", table, "--epsilon", "1", "--public"],
        ["audit", "no.py:train", "--data", table],
        ["data", "draft", table],
    ):
        code = COMMAND.format(arguments).replace(
            "main()",
            """
try:
    main()
except SystemExit:
    pass
assert not {"torch", "sklearn"} & {*sys.modules}""",
        )
        done = without([], code)
        assert done.returncode == 0, done.stderr


def test_pytorch_is_imported_when_a_model_is_trained():
    """What commands and estimators need before that is quick to import."""
    code = """
import sys
import dpnotes.data, dpnotes.learners, dpnotes.methods
import dpnotes.lab.backlog, dpnotes.lab.chapters, dpnotes.lab.cli
import dpnotes.lab.guarantee, dpnotes.lab.own_training
assert not {"torch", "sklearn", "scipy.stats"} & {*sys.modules}
import numpy
import dpnotes.auditing, dpnotes.comparing, dpnotes.preprocessing
for name in dir(dpnotes.methods):
    getattr(dpnotes.methods, name)
dpnotes.ClassMeans(1.0).fit(numpy.eye(4), [0, 1, 0, 1]).predict_proba(numpy.eye(4))
assert "torch" not in sys.modules
dpnotes.LossPerturbation(1.0).fit(numpy.eye(4), [0, 1, 0, 1])
assert "torch" in sys.modules
"""
    done = without([], code)
    assert done.returncode == 0, done.stderr


def test_light_commands_do_not_need_the_book():
    light = "import dpnotes.lab.cli, dpnotes.lab.guarantee, dpnotes.lab.own_training"
    assert without({*EXTRAS["book"]} - {*EXTRAS["learn"]}, light).returncode == 0
    done = without(
        ["papermill"],
        COMMAND.format(["build"]),
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith("Error: the book needs the extra [book]: ")


def test_extras_bring_what_is_checked(repository):
    """What an extra is said to bring is what pyproject.toml installs."""
    declared = tomllib.loads(
        (repository / "pyproject.toml").read_text(encoding="utf-8")
    )["project"]
    distributions = metadata.packages_distributions()
    installed = " ".join(declared["dependencies"])
    assert "dpnotes[learn]" in declared["optional-dependencies"]["book"]
    for extra in ("learn", "book"):
        installed += " " + " ".join(declared["optional-dependencies"][extra])
        for library in EXTRAS[extra]:
            assert any(name.lower() in installed for name in distributions[library]), (
                library
            )


def test_version_is_in_one_place(repository):
    assert metadata.version("dpnotes") == dpnotes.__version__
    for name in ("pyproject.toml", "CITATION.cff", "_config.yml"):
        text = (repository / name).read_text(encoding="utf-8")
        assert not re.search(
            rf'^\s*version\s*[:=]\s*"?{re.escape(dpnotes.__version__)}', text, re.M
        )
    assert f"## {dpnotes.__version__}\n" in (repository / "CHANGELOG.md").read_text(
        encoding="utf-8"
    )


CALLS = """
from dpnotes import ModelSensitivity
from dpnotes.lab.bagging.experiments import private_base

ModelSensitivity(1.0, l2=0.1)
ModelSensitivity("1.0", l2=0.1)  # error
ModelSensitivity(1.0, l2=0.1, foo=1)  # error
private_base(dataset="a", split="test", mode="bare", subsample="9", epsilon=1.0, delta=0.1, l2=0.1, seed=0)  # error
"""


def test_mypy_refuses_parameters_of_another_type(repository, tmp_path):
    file = tmp_path / "calls.py"
    file.write_text(CALLS)
    expected = {
        number
        for number, line in enumerate(CALLS.splitlines(), 1)
        if line.endswith("# error")
    }
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--config-file",
        "pyproject.toml",
        str(file),
    ]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True)
    found = {int(line) for line in re.findall(r"calls\.py:(\d+): error", done.stdout)}
    assert {
        min(expected, key=lambda number: abs(number - line)) for line in found
    } == expected, done.stdout
    assert len(found) == len(expected), done.stdout
