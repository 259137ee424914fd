"""Draw the trade-off curves that the guarantees of four mechanisms give, with a slider
for each parameter.

Vega-Lite draws the figure in the reader's browser and needs only the page. The browser
computes the curves that have a closed form. The curves of DP-SGD and of votes are
computed here, at the stops of their sliders.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from dpnotes import accounting
from dpnotes.accounting import PrivacyProfile
from dpnotes.lab.figures import line_styles

RATES = np.geomspace(1e-5, 1.0, 41)  # false-positive rates at which curves are drawn
DELTA = 1e-5  # at which epsilons are shown
# of Gaussian noise, at which its epsilons are computed here
MUS = np.geomspace(0.04, 21, 200)
ID = "tradeoff-explorer"
SCRIPT = """{
const id = '%s', drawn = await vegaEmbed('#' + id, %s, %s), view = drawn.view;
const written = value => isFinite(value) ? value.toLocaleString('en', {maximumSignificantDigits: 3}) : value;
const inputs = document.querySelectorAll('#' + id + ' input');
inputs.forEach(input => input.parentElement.append(document.createElement('output')));
const follow = () => {
  view.signal('shown').forEach((value, i) => {
    inputs[i].ariaValueText = inputs[i].parentElement.lastChild.textContent = written(value);
  });
  const cells = document.querySelectorAll('#' + id + '-facts td');
  view.signal('facts').flat().forEach((value, i) => { cells[i + 1].textContent = written(value); });
};
['shown', 'facts'].forEach(name => view.addSignalListener(name, follow));
follow();
document.getElementById(id).view = view;
}"""


@dataclass(frozen=True)
class Slider:
    """A slider for one parameter of a mechanism.

    Parameters
    ----------
    name : str
        Name of the parameter in expressions.
    label : str
        Label that the reader sees; the value is shown next to the slider.
    low, high, step, start : float
        Range and step of the slider, and its place at the start.
    value : str
        Expression that turns the slider's place into the parameter's value.
    """

    name: str
    label: str
    low: float
    high: float
    step: float
    start: float
    value: str = "{}"

    @property
    def stops(self) -> list[float]:
        """All places of the slider, from low to high."""
        return [
            self.low + self.step * place
            for place in range(round((self.high - self.low) / self.step) + 1)
        ]


# Of a place: ten values a decade, from 1 at place 0; whole numbers from 10 on.
ROUND = (
    "[10, 12, 15, 20, 25, 30, 40, 50, 60, 80][round({0} % 10)] * pow(10, floor({0} /"
    " 10) - 1)"
)
SLIDERS = (
    Slider("n", "records n", 20, 60, 1, 48, ROUND),
    Slider("k", "bagging: records k for each model", 10, 50, 1, 37, ROUND),
    Slider("N", "bagging: models N", 1, 100, 1, 1),
    Slider("noise", "Gaussian noise: sigma / sensitivity", 0.5, 20, 0.1, 5.0),
    Slider("times", "Gaussian noise: answers", 1, 100, 1, 1),
    Slider(
        "sigma",
        "DP-SGD: noise multiplier",
        0,
        4,
        1,
        2,
        "[0.7, 1, 1.4, 2, 2.8][round({})]",
    ),
    Slider("q", "DP-SGD: sample rate", -3, -1, 1, -2, "pow(10, {})"),
    Slider("T", "DP-SGD: steps", 1, 4, 1, 3, "round(pow(10, {}))"),
    Slider("beta", "votes: inverse temperature beta", -2, 0, 0.5, -1, "pow(10, {})"),
    Slider("B", "votes: answers", 0, 3, 1, 2, "round(pow(10, {}))"),
)
# curves that are computed here, by these sliders
COMPUTED = {"DP-SGD": ("sigma", "q", "T"), "votes": ("beta", "B")}
NAMES = ("bagging", "Gaussian noise", *COMPUTED)
COLUMNS = (
    "advantage",
    "true-positive rate at 0.1 % false positives",
    "epsilon at delta = 1e-5",
)


def curves() -> list[dict[str, Any]]:
    """Compute the curves that have no closed form, at all stops of their sliders.

    Returns
    -------
    list of dict
        One entry for each curve: its method, its stop (the places of its sliders,
        counted from 0 and joined by commas), its tpr (true-positive rates at
        :data:`RATES`, to five digits), and its facts (advantage, true-positive rate at
        0.1 % false positives, epsilon at :data:`DELTA`).
    """
    found = []
    for method, names in COMPUTED.items():
        for places in itertools.product(
            *(enumerate(_slider(name).stops) for name in names)
        ):
            values = {
                name: value_of(name, place)
                for name, (_, place) in zip(names, places, strict=True)
            }
            known = profile(method, values)
            rates = [float(f"{1 - missed:.5g}") for missed in known.tradeoff(RATES)]
            numbers = (
                known.advantage,
                1 - float(known.tradeoff(1e-3)),
                known.epsilon(DELTA),
            )
            facts = [float(f"{number:.3g}") for number in numbers]
            stop = ",".join(str(place) for place, _ in places)
            found.append({"method": method, "stop": stop, "tpr": rates, "facts": facts})
    return found


def value_of(name: str, place: float) -> float:
    """Return the value of a parameter at a place of its slider.

    Examples
    --------
    >>> value_of("T", 3), value_of("sigma", 3)
    (1000.0, 2.0)
    """
    return float(
        eval(
            _slider(name).value.format(place),
            {"pow": pow, "round": round, "floor": math.floor},
        )
    )


def profile(method: str, values: dict[str, float]) -> PrivacyProfile:
    """Return the guarantee of a method at the values of its sliders; a k above n
    counts as n.
    """
    if method == "bagging":
        n = int(values["n"])
        return accounting.bagging(
            n=n, subsample=min(int(values["k"]), n), n_models=int(values["N"])
        )
    if method == "Gaussian noise":
        return accounting.gaussian(sigma=values["noise"]).compose(int(values["times"]))
    if method == "DP-SGD":
        return accounting.dp_sgd(
            noise_multiplier=values["sigma"],
            sample_rate=values["q"],
            steps=int(values["T"]),
        )
    return accounting.soft_vote(beta=values["beta"], answers=int(values["B"]))


def specification() -> dict[str, Any]:
    """Build the specification of the figure for Vega-Lite; Altair checks it."""
    # its own types are hundreds of thousands of characters
    alt: Any = import_module("altair")
    params = [
        alt.param(
            name=f"at_{s.name}",
            value=s.start,
            bind=alt.binding_range(min=s.low, max=s.high, step=s.step, name=s.label),
        )
        for s in SLIDERS
    ]
    values = {s.name: f"({s.value.format(f'at_{s.name}')})" for s in SLIDERS}
    kept, alpha = f"min({values['k']}, {values['n']})", "datum.alpha"
    pi = f"(1 - pow(1 - 1 / {values['n']}, {kept} * {values['N']}))"
    mu = f"(sqrt({values['times']}) / {values['noise']})"
    closed = {
        "bagging": f"min(1, {pi} + {alpha})",
        "Gaussian noise": (
            f"{alpha} >= 1 ? 1 : cumulativeNormal(quantileNormal({alpha}) + {mu})"
        ),
    }
    colors = [_hexadecimal(style["color"]) for style in line_styles(4)]
    scale = {"color": colors, "strokeDash": [[1, 0], [6, 3], [8, 3, 2, 3], [2, 3]]}
    logarithmic = {"type": "log", "domain": [RATES[0], 1], "nice": False}
    axis = {
        "values": [10.0**power for power in range(-5, 1)],
        "format": "~g",
        "labelFontSize": 12,
        "titleFontSize": 13,
    }
    encoding = {
        "x": (
            alt.X("alpha:Q", title="false-positive rate (log)")
            .scale(**logarithmic)
            .axis(**axis)
        ),
        "y": (
            alt.Y("tpr:Q", title="largest true-positive rate (log)")
            .scale(**logarithmic, clamp=True)
            .axis(**axis)
        ),
        "color": (
            alt.Color("method:N", title=None)
            .scale(domain=NAMES, range=scale["color"])
            .legend(orient="top", columns=2, labelLimit=0, labelFontSize=13)
        ),
        "strokeDash": (
            alt.StrokeDash("method:N", title=None).scale(
                domain=NAMES, range=scale["strokeDash"]
            )
        ),
        "tooltip": [
            alt.Tooltip("method:N"),
            alt.Tooltip("alpha:Q", format=".2g"),
            alt.Tooltip("tpr:Q", format=".3g"),
        ],
    }
    grid = alt.Data(values=[{"alpha": rate} for rate in RATES.tolist()])
    layers = [
        alt.Chart(grid)
        .mark_line()
        .transform_calculate(method=f"'{name}'", tpr=tpr)
        .encode(**encoding)
        for name, tpr in closed.items()
    ]
    computed = curves()
    chosen = {
        method: " + ',' + ".join(
            f"round((at_{n} - {_slider(n).low}) / {_slider(n).step})" for n in names
        )
        for method, names in COMPUTED.items()
    }
    layers += [
        alt.Chart(alt.Data(values=computed))
        .mark_line()
        .transform_filter(f"datum.method == '{method}' && datum.stop == '' + {stop}")
        .transform_calculate(alpha=str(RATES.tolist()))
        .transform_flatten(["alpha", "tpr"])
        .encode(**encoding)
        for method, stop in chosen.items()
    ]
    nothing = (
        alt.Chart(grid)
        .mark_line(color="#888888", strokeWidth=1)
        .encode(x=encoding["x"], y=alt.Y("alpha:Q"))
    )
    epsilons = np.log([accounting.gaussian(sigma=1 / mu).epsilon(DELTA) for mu in MUS])
    params += [
        alt.param(name="epsilons", value=np.round(epsilons, 5).tolist()),
        alt.param(
            name="place",
            expr=f"(log({mu}) - {math.log(MUS[0])}) / {math.log(MUS[1] / MUS[0])}",
        ),
        alt.param(name="shown", expr=f"[{', '.join(values.values())}]"),
    ]
    below, above = "epsilons[floor(place)]", "epsilons[floor(place) + 1]"
    facts = {
        "bagging": f"[{pi}, min(1, {pi} + 0.001), {pi} > {DELTA} ? 'none' : 0]",
        "Gaussian noise": (
            f"[2 * cumulativeNormal({mu} / 2) - 1,"
            f" cumulativeNormal(quantileNormal(0.001) + {mu}), exp({below} + (place -"
            f" floor(place)) * ({above} - {below}))]"
        ),
    }
    for method, stop in chosen.items():
        known = {
            row["stop"]: row["facts"] for row in computed if row["method"] == method
        }
        facts[method] = f"{json.dumps(known)}['' + {stop}]"
    params.append(alt.param(name="facts", expr=f"[{', '.join(facts.values())}]"))
    chart = (
        alt.layer(nothing, *layers)
        .add_params(*params)
        .properties(width="container", height=380)
    )
    return dict(chart.configure(background="transparent").to_dict())


def page() -> str:
    """Return the explorer as HTML that contains all its scripts."""
    return embed(specification(), ID, "Trade-off explorer", NAMES, COLUMNS)


def embed(
    specification: Any,
    name: str,
    label: str,
    rows: Sequence[str] = (),
    columns: Sequence[str] = (),
) -> str:
    """Return HTML with a figure, its sliders, and a table of numbers that follow the
    sliders.

    Parameters
    ----------
    specification : dict
        Specification of the figure for Vega-Lite. Its parameter ``shown`` lists the
        values next to the sliders, and ``facts`` lists the rows of the table.
    name, label : str
        Identifier of the figure in the page, and its label for screen readers.
    rows, columns : sequence of str
        Headings of the table.
    """
    vl_convert: Any = import_module("vl_convert")
    bundle = vl_convert.javascript_bundle().replace("</script", "<\\/script")
    settings = {"actions": False, "renderer": "svg"}
    heads = "".join(f'<th scope="col">{column}</th>' for column in columns)
    lines = "".join(
        f'<tr><th scope="row">{row}</th>{"<td></td>" * len(columns)}</tr>'
        for row in rows
    )
    return (
        f"<style>#{name} {{ width: 100%; }} #{name} text {{ fill: currentColor; }}\n"
        f"#{name} .vega-bind, #{name} label {{ align-items: center; display: flex;"
        " width: 100%; }\n"
        f"#{name} .vega-bind-name {{ flex: 0 0 42%; }} #{name} input {{ flex: 1;"
        " min-width: 0; }\n"
        f"#{name} input + span {{ display: none; }} #{name} output {{ flex: 0 0 3.5em;"
        " text-align: right; }\n"
        f"#{name}-facts :is(th, td) {{ padding: 0.3em 0.2em; }}</style>\n"
        f'<div id="{name}" role="group" aria-label="{label}"></div>\n'
        f'<table id="{name}-facts" style="width:'
        f' 100%"><tr><td></td>{heads}</tr>{lines}</table>\n'
        "<script"
        f' type="module">{bundle}\n{SCRIPT % (name, json.dumps(specification), json.dumps(settings))}</script>'
    )


def _slider(name: str) -> Slider:
    return next(slider for slider in SLIDERS if slider.name == name)


def _hexadecimal(color: Any) -> str:
    from matplotlib.colors import to_hex

    return to_hex(color)
