"""`dpnotes guarantee`: words and JSON are those of the functions, and options those
of their signatures.
"""

import inspect
import json
import re

import pytest
from click.testing import CliRunner

from dpnotes import accounting
from dpnotes._validation import rounded
from dpnotes.lab import guarantee as _guarantee
from dpnotes.lab.cli import main


@pytest.fixture
def ask():
    def run(*words):
        result = CliRunner().invoke(main, ["guarantee", *map(str, words)])
        return result.exit_code, result.output

    return run


def test_a_profile_in_words_and_at_points(ask):
    code, out = ask(
        "bagging",
        "--n",
        60_000,
        "--subsample",
        500,
        "--at-delta",
        0.001,
        "--at-epsilon",
        2,
    )
    profile = accounting.bagging(n=60_000, subsample=500)
    assert code == 0
    assert out.startswith(repr(profile))
    assert "no epsilon at delta=0.001" in out
    assert f"(2, {rounded(profile.delta(2.0), 6)})-DP" in out


@pytest.mark.parametrize("scale", [0.7, 3.0, 7.0, 11.0, 1e3])
@pytest.mark.parametrize("at", [("delta", 0.0), ("delta", 1e-5), ("epsilon", 1 / 30)])
@pytest.mark.parametrize(("name", "option"), [("laplace", "scale"), ("zcdp", "rho")])
def test_printed_pairs_hold(ask, name, option, scale, at):
    """All digits of a pair that is printed are on the safe side."""
    given, value = at
    out = ask(name, f"--{option}", scale, f"--at-{given}", value)[1]
    profile = getattr(accounting, name)(**{option: scale})
    for epsilon, delta in re.findall(r"^  \((.*), (.*)\)-DP$", out, re.MULTILINE):
        assert profile.delta(float(epsilon)) <= float(delta)


def test_a_statement_is_written(ask, tmp_path):
    file = tmp_path / "stated.json"
    code, out = ask(
        "bagging",
        "--n",
        100,
        "--subsample",
        5,
        "--at-delta",
        0.1,
        "--at-epsilon",
        1,
        "--statement",
        file,
    )
    stated = accounting.PrivacyStatement.from_json(file.read_text())
    assert code == 0
    assert out.startswith("PrivacyProfile of bagging")
    assert stated == accounting.statement(
        accounting.bagging(n=100, subsample=5), delta=0.1, epsilon=1, n_public=True
    )
    code, out = ask("pure", "--epsilon", 1, "--statement", tmp_path / "stated.doc")
    assert (code, "the ending of path must be one of" in out) == (2, True)


def test_json_is_that_of_the_profile(ask):
    code, out = ask("gaussian", "--sigma", 2, "--at-delta", 1e-5, "--json")
    found = json.loads(out)
    profile = accounting.gaussian(sigma=2.0)
    assert code == 0
    assert found["pairs"] == [{"epsilon": profile.epsilon(1e-5), "delta": 1e-5}]
    assert {key: found[key] for key in profile.to_dict()} == profile.to_dict()


def test_a_refuted_guarantee_is_not_stated_as_a_fact(ask):
    code, out = ask(
        "soft-vote", "--beta", 1, "--analysis", "published", "--at-delta", 0
    )
    assert code == 0
    assert out.splitlines()[-1] == "  (1, 0) is claimed; status: refuted"
    assert ")-DP" not in out
    assert ask("pure", "--epsilon", 1, "--at-delta", 0)[1].endswith("  (1, 0)-DP\n")


def test_json_has_no_token_of_its_own_for_infinity(ask):
    code, out = ask("gaussian", "--sigma", 2, "--at-delta", 0, "--json")
    assert code == 0
    assert json.loads(out, parse_constant=pytest.fail)["pairs"] == [
        {"epsilon": "infinity", "delta": 0.0}
    ]


def test_every_function_has_a_command_with_its_parameters_explained(ask):
    code, out = ask("--help")
    assert code == 0
    names = [command.name for command in _guarantee.commands()]
    assert {"bagging", "gaussian", "pure", "approximate"} <= set(names)
    for name in names:
        assert name in out
        code, text = ask(name, "--help")
        assert code == 0
        assert "``" not in text
        function = getattr(accounting, name.replace("-", "_"))
        command = next(c for c in _guarantee.commands() if c.name == name)
        options = {option.name: option for option in command.params}
        for parameter in inspect.signature(function).parameters.values():
            if parameter.name in options:
                assert options[parameter.name].help, (
                    f"{name}: {parameter.name} is not explained"
                )
            else:
                assert parameter.default is None, (
                    f"{name}: {parameter.name} cannot be given"
                )


@pytest.mark.parametrize("name", _guarantee.CALIBRATIONS)
def test_a_calibration_takes_its_numbers(ask, name):
    given = {"epsilon": 1.0, "delta": 1e-5}
    if name == "soft_vote_beta":
        given["answers"] = 3
    if name == "dp_sgd_noise_multiplier":
        given |= {"sample_rate": 0.1, "steps": 3, "accountant": "rdp"}
    words = []
    for option, value in given.items():
        words += [f"--{option.replace('_', '-')}", value]
    code, out = ask(name.replace("_", "-"), *words)
    assert code == 0
    assert f"= {float(getattr(accounting, name)(**given))!r}" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("bagging", "--n", 0, "--subsample", 5), "Error: n must be >= 1, got n=0"),
        (
            ("bagging", "--n", 5, "--subsample", 2, "--scheme", "pairs"),
            "'pairs' is not one of 'independent', 'split'",
        ),
    ],
)
def test_bad_input_is_named(ask, words, message):
    code, out = ask(*words)
    assert code != 0
    assert message in out
    assert "Traceback" not in out
