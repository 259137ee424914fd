"""A figure that moves: sliders over the parameters of four mechanisms, the best membership test against each.

Drawn in the reader's browser by Vega-Lite, from the page alone. Curves with a closed form are computed there; those of
DP-SGD and of votes are computed here, at the stops of their sliders.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from dpnotes import accounting
from dpnotes.accounting import PrivacyProfile
from dpnotes.lab.figures import line_styles

RATES = np.geomspace(1e-5, 1.0, 41)  # false-positive rates at which curves are drawn
ID = "tradeoff-explorer"


@dataclass(frozen=True)
class Slider:
    """One slider.

    Parameters
    ----------
    name : str
        Of the parameter, in expressions.
    label : str
        What the reader sees; the value shown beside it is ``text``.
    low, high, step, start : float
    value : str
        Expression of the parameter's value from the slider's place.
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
        """Places of the slider."""
        return [self.low + self.step * place for place in range(round((self.high - self.low) / self.step) + 1)]


SLIDERS = (
    Slider("n", "records n", 2, 6, 0.1, 4.8, "round(pow(10, {}))"),
    Slider("k", "bagging: k of them for each model", 0, 5, 0.1, 3.7, "round(pow(10, {}))"),
    Slider("N", "bagging: models N", 1, 100, 1, 1),
    Slider("noise", "Gaussian noise: sigma / sensitivity", 0.5, 20, 0.1, 5.0),
    Slider("times", "Gaussian noise: answers", 1, 100, 1, 1),
    Slider("sigma", "DP-SGD: noise multiplier", -1, 3, 1, 1, "pow(2, {} / 2)"),
    Slider("q", "DP-SGD: sample rate", -3, -1, 1, -2, "pow(10, {})"),
    Slider("T", "DP-SGD: steps", 1, 4, 1, 3, "round(pow(10, {}))"),
    Slider("beta", "votes: inverse temperature", -2, 0, 0.5, -1, "pow(10, {})"),
    Slider("B", "votes: answers", 0, 3, 1, 2, "round(pow(10, {}))"),
)
COMPUTED = {"DP-SGD": ("sigma", "q", "T"), "votes": ("beta", "B")}  # curves that are computed here, by these sliders
NAMES = ("bagging", "Gaussian noise", *COMPUTED)


def curves() -> list[dict[str, Any]]:
    """Curves that have no closed form, at all stops of their sliders.

    Returns
    -------
    list of dict
        method, stop (places of its sliders, counted from 0, joined by commas), tpr (at :data:`RATES`, five digits).
    """
    found = []
    for method, names in COMPUTED.items():
        for places in itertools.product(*(enumerate(_slider(name).stops) for name in names)):
            values = {name: value_of(name, place) for name, (_, place) in zip(names, places, strict=True)}
            rates = [float(f"{1 - missed:.5g}") for missed in profile(method, values).tradeoff(RATES)]
            found.append({"method": method, "stop": ",".join(str(place) for place, _ in places), "tpr": rates})
    return found


def value_of(name: str, place: float) -> float:
    """A parameter's value at a place of its slider.

    Examples
    --------
    >>> value_of("T", 3), value_of("sigma", 2)
    (1000.0, 2.0)
    """
    return float(eval(_slider(name).value.format(place), {"pow": pow, "round": round}))


def profile(method: str, values: dict[str, float]) -> PrivacyProfile:
    """Guarantee of a method at the values of its sliders; for bagging, k at most n."""
    if method == "bagging":
        n = int(values["n"])
        return accounting.bagging(n=n, subsample=min(int(values["k"]), n), n_models=int(values["N"]))
    if method == "Gaussian noise":
        return accounting.gaussian(sigma=values["noise"]).compose(int(values["times"]))
    if method == "DP-SGD":
        return accounting.dp_sgd(noise_multiplier=values["sigma"], sample_rate=values["q"], steps=int(values["T"]))
    return accounting.soft_vote(beta=values["beta"], answers=int(values["B"]))


def specification() -> dict[str, Any]:
    """The figure in Vega-Lite's terms, made and checked by Altair."""
    alt: Any = import_module("altair")  # its own types are hundreds of thousands of characters
    params = [
        alt.param(
            name=f"at_{s.name}", value=s.start, bind=alt.binding_range(min=s.low, max=s.high, step=s.step, name=s.label)
        )
        for s in SLIDERS
    ]
    values = {s.name: f"({s.value.format(f'at_{s.name}')})" for s in SLIDERS}
    kept, alpha = f"min({values['k']}, {values['n']})", "datum.alpha"
    pi = f"(1 - pow(1 - 1 / {values['n']}, {kept} * {values['N']}))"
    mu = f"(sqrt({values['times']}) / {values['noise']})"
    closed = {
        "bagging": f"min(1, {pi} + {alpha})",
        "Gaussian noise": f"{alpha} >= 1 ? 1 : cumulativeNormal(quantileNormal({alpha}) + {mu})",
    }
    styles = dict(zip(NAMES, line_styles(len(NAMES)), strict=True))
    dashes = {"-": [1, 0], "--": [6, 3], "-.": [8, 3, 2, 3], ":": [2, 3]}
    scale = {
        "color": [_hexadecimal(styles[name]["color"]) for name in NAMES],
        "strokeDash": [dashes[styles[name]["linestyle"]] for name in NAMES],
    }
    logarithmic = {"type": "log", "domain": [RATES[0], 1], "nice": False}
    axis = {"values": [10.0**power for power in range(-5, 1)], "format": "~g", "labelFontSize": 12, "titleFontSize": 13}
    encoding = {
        "x": alt.X("alpha:Q", title="false-positive rate (log)").scale(**logarithmic).axis(**axis),
        "y": alt.Y("tpr:Q", title="largest true-positive rate (log)").scale(**logarithmic, clamp=True).axis(**axis),
        "color": alt.Color("method:N", title=None)
        .scale(domain=NAMES, range=scale["color"])
        .legend(orient="top", columns=2, labelLimit=0, labelFontSize=13),
        "strokeDash": alt.StrokeDash("method:N", title=None).scale(domain=NAMES, range=scale["strokeDash"]),
        "tooltip": [alt.Tooltip("method:N"), alt.Tooltip("alpha:Q", format=".2g"), alt.Tooltip("tpr:Q", format=".3g")],
    }
    grid = alt.Data(values=[{"alpha": rate} for rate in RATES.tolist()])
    layers = [
        alt.Chart(grid).mark_line().transform_calculate(method=f"'{name}'", tpr=tpr).encode(**encoding)
        for name, tpr in closed.items()
    ]
    table = alt.Data(values=curves())
    chosen = {
        method: " + ',' + ".join(f"round((at_{n} - {_slider(n).low}) / {_slider(n).step})" for n in names)
        for method, names in COMPUTED.items()
    }
    layers += [
        alt.Chart(table)
        .mark_line()
        .transform_filter(f"datum.method == '{method}' && datum.stop == '' + {stop}")
        .transform_calculate(alpha=str(RATES.tolist()))
        .transform_flatten(["alpha", "tpr"])
        .encode(**encoding)
        for method, stop in chosen.items()
    ]
    nothing = alt.Chart(grid).mark_line(color="#888888", strokeWidth=1).encode(x=encoding["x"], y=alt.Y("alpha:Q"))
    said = {
        "bagging": f"'bagging: k = ' + format({kept}, ',') + ' of n = ' + format({values['n']}, ',')",
        "Gaussian noise": f"'Gaussian noise: mu = ' + format({mu}, '.3g')",
        "DP-SGD": f"'DP-SGD: sigma = ' + format({values['sigma']}, '.2g') + ', q = ' + format({values['q']}, '.2g')"
        f" + ', ' + format({values['T']}, ',') + ' steps'",
        "votes": f"'votes: beta = ' + format({values['beta']}, '.2g') + ', ' + format({values['B']}, ',') + ' answers'",
    }
    title = alt.TitleParams(alt.ExprRef(f"[{', '.join(said.values())}]"), anchor="start", fontWeight="normal")
    chart = alt.layer(nothing, *layers).add_params(*params).properties(width="container", height=380, title=title)
    return dict(chart.configure(background="transparent").to_dict())


def page() -> str:
    """The figure as a piece of a page: HTML with all scripts in it."""
    vl_convert: Any = import_module("vl_convert")
    bundle = vl_convert.javascript_bundle().replace("</script", "<\\/script")
    settings = {"actions": False, "renderer": "svg"}
    draw = f"vegaEmbed('#{ID}', {json.dumps(specification())}, {json.dumps(settings)}).then(drawn => {{"
    draw += f"document.getElementById('{ID}').view = drawn.view; }});"
    return (
        f"<style>#{ID} {{ width: 100%; }} #{ID} text {{ fill: currentColor; }}\n"
        f"#{ID} .vega-bind {{ display: flex; }} #{ID} .vega-bind label {{ display: flex; width: 100%; }}\n"
        f"#{ID} .vega-bind-name {{ flex: 0 0 55%; }} #{ID} input {{ flex: 1; }}\n"
        f"#{ID} input + span {{ display: none; }}\n"
        f"</style>\n"
        f'<div id="{ID}" role="group" aria-label="Trade-off explorer"></div>\n'
        f'<script type="module">{bundle}\n{draw}</script>'
    )


def _slider(name: str) -> Slider:
    return next(slider for slider in SLIDERS if slider.name == name)


def _hexadecimal(color: Any) -> str:
    from matplotlib.colors import to_hex

    return to_hex(color)
