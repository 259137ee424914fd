"""`dpnotes guarantee`: the constructors and calibrations of :mod:`dpnotes.accounting`,
asked from the command line.

Options, their types and their help are read off each function's signature and
docstring, so that nothing is said twice.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable
from math import inf
from typing import Any

import click

from dpnotes import accounting
from dpnotes._validation import rounded

PROFILES = (
    "bagging",
    "gaussian",
    "gaussian_of_advantage",
    "laplace",
    "pure",
    "approximate",
    "zcdp",
    "soft_vote",
    "noisy_vote",
    "gnmax",
    "confident_gnmax",
    "dp_sgd",
)
CALIBRATIONS = ("gaussian_sigma", "soft_vote_beta", "dp_sgd_noise_multiplier")
PAIR = "({}, {})-DP"
DIGITS = 6
TYPES = {"int": int, "float": float, "str": str, "bool": bool}

# a line of a numpydoc section, with its indented text
_PARAMETER = re.compile(r"^(\w+(?:, \w+)*) : (.+)\n((?:    .*\n|\n)*)", re.MULTILINE)


def commands() -> list[click.Command]:
    """One command for each function: first the mechanisms, then the calibrations."""
    return [
        _command(name, getattr(accounting, name)) for name in (*PROFILES, *CALIBRATIONS)
    ]


def _command(name: str, function: Callable[..., Any]) -> click.Command:
    document = inspect.getdoc(function) or ""
    # several parameters may share a description
    described: dict[str, re.Match[str]] = {}
    for found in _PARAMETER.finditer(document + "\n"):
        described |= dict.fromkeys(found[1].split(", "), found)
    options: list[click.Parameter] = []
    for parameter in inspect.signature(function).parameters.values():
        # others cannot be typed, and have defaults
        if str(parameter.annotation).partition(" ")[0] in (*TYPES, "ArrayLike"):
            options.append(_option(parameter, described.get(parameter.name)))
    profile = name in PROFILES
    if profile:
        for given, shown in (("delta", "epsilon"), ("epsilon", "delta")):
            words = f"Show {shown} at this {given} too."
            options.append(
                click.Option([f"--at-{given}"], type=float, multiple=True, help=words)
            )
        words = (
            "Write what a release of this guarantee promises, one page, as .json, .html"
            " or .pdf."
        )
        options.append(
            click.Option(["--statement"], type=click.Path(dir_okay=False), help=words)
        )
    options.append(
        click.Option(["--json", "as_json"], is_flag=True, help="For machines.")
    )
    # a mechanism gives a profile, a calibration a number
    run = _show_profile if profile else _show_number

    def callback(**given: Any) -> None:
        run(name, function, given)

    summary = _plain(" ".join(document.split("\n\n")[0].split()))
    return click.Command(
        name.replace("_", "-"),
        callback=callback,
        params=options,
        help=summary,
        short_help=summary,
    )


def _option(
    parameter: inspect.Parameter, described: re.Match[str] | None
) -> click.Option:
    flag = parameter.name.replace("_", "-")
    kind = TYPES.get(str(parameter.annotation).partition(" ")[0])
    if kind is None:
        # ArrayLike: one number, of the kind that the docstring names first
        told = described[2] if described else ""
        kind = TYPES.get(told.partition(" ")[0], float)
    settings: dict[str, Any] = {"help": _words(described), "required": True}
    if parameter.default is not inspect.Parameter.empty:
        # None says nothing to a reader
        shown = parameter.default is not None
        settings |= {
            "required": False,
            "default": parameter.default,
            "show_default": shown,
        }
    if kind is bool:
        return click.Option([f"--{flag}/--no-{flag}"], **settings)
    # words in double quotes are the valid ones
    choices = (
        re.findall(r'"([^"]+)"', described[2]) if described and kind is str else []
    )
    return click.Option(
        [f"--{flag}"], type=click.Choice(choices) if choices else kind, **settings
    )


def _words(described: re.Match[str] | None) -> str:
    """What a docstring says of a parameter: its kind, then its meaning."""
    if described is None:
        return ""
    return _plain(" ".join([described[2].rstrip(".") + ".", *described[3].split()]))


def _plain(text: str) -> str:
    """Text without the marks of reStructuredText."""
    return re.sub(
        r":\w+:`~?([^`]*)`|``([^`]*)``", lambda found: found[1] or found[2], text
    )


def _show_profile(
    name: str, function: Callable[..., Any], given: dict[str, Any]
) -> None:
    as_json = given.pop("as_json")
    deltas = given.pop("at_delta")
    epsilons = given.pop("at_epsilon")
    file = given.pop("statement")
    profile = function(**given)
    if file is not None:  # what is typed is public, a number of records too
        accounting.statement(
            profile, delta=deltas, epsilon=epsilons, n_public=True
        ).save(file)
    # what was asked for, in the order of the options
    pairs = [(float(profile.epsilon(delta)), delta) for delta in deltas]
    pairs += [(epsilon, float(profile.delta(epsilon))) for epsilon in epsilons]
    if as_json:
        # JSON has no infinity
        found = [
            {"epsilon": "infinity" if epsilon == inf else epsilon, "delta": delta}
            for epsilon, delta in pairs
        ]
        click.echo(json.dumps({**profile.to_dict(), "pairs": found}, allow_nan=False))
        return
    click.echo(str(profile))
    # a refuted claim must not read like a guarantee
    stated = (
        f"({{}}, {{}}) is claimed; status: {profile.status}"
        if profile.exactness == "claimed"
        else PAIR
    )
    for epsilon, delta in pairs:
        click.echo(
            "  "
            + (
                stated.format(rounded(epsilon, DIGITS), rounded(delta, DIGITS))
                if epsilon < inf
                else f"no epsilon at {delta=:g}"
            )
        )


def _show_number(
    name: str, function: Callable[..., Any], given: dict[str, Any]
) -> None:
    as_json = given.pop("as_json")
    value = float(function(**given))
    if as_json:
        click.echo(json.dumps({"function": name, "arguments": given, "value": value}))
        return
    arguments = ", ".join(f"{key}={argument!r}" for key, argument in given.items())
    click.echo(f"{name}({arguments}) = {value!r}")
    click.echo(f"  {(inspect.getdoc(function) or '').splitlines()[0]}")
