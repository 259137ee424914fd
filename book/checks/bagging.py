"""What the chapter on bagging says of the published rows."""

from dpnotes import accounting
from dpnotes.lab import bagging, ledger, scorecard, strip
from dpnotes.lab.bagging import results
from dpnotes.lab.chapters import Chapter
from dpnotes.lab.strip import Line
from dpnotes.lab.verdicts import ACCURACY, above, every, verdict

RUNS = results.rows("bagging_table2a")
EQUAL = results.rows("bagging_equal")
PRINTED = results.printed_tables()
CARD = results.cells()
OUTCOMES = scorecard.listed({"": CARD}).set_index(["table", "cell"])["outcome"]
LENDER = results.noisy(EQUAL)  # what a single run of DP-SGD borrows


def _points(values, unit=""):
    return " / ".join(f"{100 * value:.1f}" for value in values) + unit


def drawing():
    assert 4 ** (2 * 2) == 256  # "There are 256 outcomes"
    ways = {}
    for scheme in ("split", "independent"):
        of_scheme = {"n_models": 100, "replace": False, "scheme": scheme}
        ways[scheme] = accounting.bagging(n=60_000, subsample=100, **of_scheme)
    # "independent subsamples may overlap, so fewer records are exposed"
    assert ways["independent"].advantage < ways["split"].advantage


def risk():
    smallest = accounting.bagging(n=60_000, subsample=300)
    return {
        "bagging-flat": f"{smallest.delta(10.0):.5f}",
        "bagging-exposed": round(60_000 * smallest.advantage),
        "bagging-one-in": round(1 / smallest.advantage),
    }


def noise_of_equal_strength():
    tight = accounting.bagging(n=60_000, subsample=5000)
    gauss = accounting.gaussian_of_advantage(tight.advantage)
    assert abs(tight.advantage - gauss.advantage) < 1e-9
    for false_positives in (0.0, 1e-6, 1e-3):
        of_bagging = 1 - tight.tradeoff(false_positives)
        assert of_bagging > 10 * (
            1 - gauss.tradeoff(false_positives)
        )  # "loses its power"


def table_2a():
    outcomes = OUTCOMES["Table 2a"]
    noisy = outcomes.index.str.startswith("DP-SGD")
    assert (outcomes[~noisy] == "agrees").all()  # "reproduced"
    at_one_rate = outcomes[noisy].isin(["agrees", "explained"])
    assert len(at_one_rate) == 5  # "of its five accuracies"
    # "those of DP-SGD at one learning rate for all noises"
    assert at_one_rate.sum() >= 4
    ours = PRINTED["2a"].query("method != 'dp_sgd'")["difference"].dropna()
    of_paper = PRINTED["2a"].query("variant == ''")
    exposed = of_paper.pivot_table("advantage", "block", "method")
    smaller = exposed["dp_sgd"] < exposed["bagging"] / 2
    assert len(smaller) == 5
    assert smaller.all()  # "it is less than half as large for DP-SGD"
    return {
        "bagging-lent": f"{100 * LENDER.std:.2f}",
        "bagging-lent-runs": int(EQUAL["width"].notna().sum()),
        "bagging-largest-difference": f"{100 * ours.abs().max():.2f}",
        "bagging-compared": len(ours),
        "bagging-one-rate": int(at_one_rate.sum()),
        "bagging-tie": f"{100 * ACCURACY:.1f}",
    }


def what_holds():
    own = [claim for claim in ledger.LEDGER if claim.chapter == "bagging"]
    assert {claim.supports for claim in own} == {
        True
    }  # "The $\delta$ of every theorem holds"
    return {
        "bagging-outcomes": scorecard.in_words(CARD),
        "bagging-outcomes-2b": results.counted(OUTCOMES["Table 2b"]),
    }


def accuracies_of_other_tables():
    over = {}
    for name in ("2b", "3a"):
        bagged = PRINTED[name].query("method == 'bagging'")
        over[name] = bagged["difference"].dropna()
    sizes = OUTCOMES["Table 3a"]
    sizes = sizes[sizes.index.str.startswith("bagging")]
    assert (sizes == "explained").all()  # "with a smaller learning rate than ours"
    other = results.rows("bagging_causes")
    lower = other[other["learning_rate"].astype(float) == 3e-5]
    lower = lower.astype({"accuracy": float}).groupby("subsample")["accuracy"].mean()
    return {
        "bagging-over-2b": _points(over["2b"]),
        "bagging-over-3a": _points(over["3a"]),
        "bagging-lower-rate": _points(lower, " %"),
    }


def order_of_bagging_and_dp_sgd():
    leads, leads_2b = (
        results.leads(PRINTED[name], "dp_sgd", "least_noise", to=LENDER)
        for name in ("3a", "2b")
    )
    order = [verdict(above(lead)) for lead in leads]
    # "holds at the smallest of three pairs and is undecided at the other two"
    assert order == ["holds", "undecided", "undecided"]
    of_2b = every(map(above, leads_2b)) if leads_2b else None
    return {
        "bagging-leads-3a": _points(lead.value for lead in leads),
        "bagging-order-2b": verdict(of_2b),
    }


def attack_on_networks():
    attacks = bagging.results.attacks(results.rows("bagging_membership"))
    strict = "attack == 'likelihood-ratio' and false_positive_rate == 0.001"
    recognised = attacks.query(strict).set_index("mislabelled")["tpr"]
    # "at 0.1 % false positives", "and hardly any of the other digits"
    assert recognised[False] < 0.002
    return {"bagging-mislabelled": f"{recognised[True]:.0%}"}


def equal_exposure():
    features = (results.rows("bagging_hog"), results.rows("bagging_hog_dp_sgd"))
    equal = bagging.results.equal_exposure(RUNS, EQUAL, "paper", features)
    said = bagging.results.standings(equal).set_index("subsample")
    for model in ("softmax", "network"):
        pixels = said[f"{model}_advantage"] == "ahead"
        assert pixels.all()  # "at equal advantage, bagging is ahead in every"
    rare = said["network_tpr"]
    few_records, many = rare.loc[:1000] == "behind", rare.loc[5000:] == "ahead"
    assert few_records.all()  # "DP-SGD with networks is ahead up to"
    assert many.all()  # "and bagging is ahead from $k = 5{,}000$ on"

    networks = said["hog_advantage"].tolist()
    order = ["behind", "behind", "undecided", "ahead", "ahead"]
    assert networks == order  # "ahead of bagged networks with $k = 300$ and 500"
    both = said["hogs_advantage"] == "ahead"
    # "at least as accurate as the best DP-SGD that we know"
    assert both.all()  # "behind bagging on the same features at every size"
    networks = said["hog_tpr"].tolist()
    order = ["behind"] * 3 + ["ahead"] * 2
    assert networks == order  # "ahead of networks up to $k = 1{,}000$"
    same = said["hogs_tpr"].tolist()
    order = ["behind"] * 4 + ["ahead"]
    assert same == order  # "ahead of bagging on the same features up to"
    assert same[:-1] == ["behind"] * 4  # "bagging is less accurate, except"
    furthest = bagging.grids.TRAVELS["tpr"][-1]
    ends = {travel for _, travel in bagging.grids.HOG_CHOSEN["tpr"].values()}
    assert ends == {furthest}  # "lie at the end of the range of candidates"

    leads = {}
    for model, by in (("network", "bagging"), ("hog", "bagging_hog")):
        ahead = (equal[by] - equal[f"{model}_advantage"]).dropna()
        leads[f"bagging-leads-{model}"] = _points(ahead)
    return leads


def memorising_attack():
    draw = {"n": 40, "subsample": 6, "n_models": 2}
    attack = bagging.results.memorising_attack(**draw, trials=500)
    within = attack["exact"].between(attack["low"] - 1e-12, attack["high"])
    assert within.all()  # "within the confidence limits of the simulated rates"


def minutes_to_read():
    return {"bagging-minutes": Chapter("bagging").minutes}


def strip_at_the_head():
    lines = [
        Line(1, "least epsilon at the printed delta", pattern="{:.2g}"),
        Line(cell="bagging, k = 300", pattern="{:.1%}"),
        Line(37, cell="DP-SGD, sigma = 200", pattern="{:.1%}"),
    ]
    return strip.values("bagging", lines, CARD)
