"""What the chapter on DPBag says of the published rows."""

from dpnotes import accounting
from dpnotes.lab import dpbag, experiments, ledger, scorecard, strip
from dpnotes.lab.chapters import Chapter
from dpnotes.lab.strip import Line
from dpnotes.lab.verdicts import Mean, above, compared, verdict

ROWS = experiments.rows("dpbag_adult_logistic")
LABELS = dpbag.results.cells(ROWS, "labels")
VARIANTS = dpbag.results.variants(ROWS, experiments.rows("dpbag_filtered"))
TIGHT, PERSONALISED = (f"method == '{name}'" for name in ("saa_tight", "dpbag"))


def picture():
    cut = {"n_chunks": 5, "n_partitions": 6}  # the figure's
    return {
        "dpbag-record": 12,
        "dpbag-touched": cut["n_partitions"],  # one in each partition
        "dpbag-drawn": cut["n_chunks"] * cut["n_partitions"],
    }


def labels_of_a_budget():
    counts = dpbag.results.counts()
    assert (counts["published"] == counts["loop_reproduced"]).all()  # all twelve
    assert (counts["published"] > counts["loop_stated"]).all()
    assert (counts["tight"] > 2 * counts["published"]).all()
    assert counts["gain"].between(4.85, 6.4).all()
    return {
        "dpbag-gain-least": f"{counts['gain'].min():.1f}",
        "dpbag-gain-most": f"{counts['gain'].max():.1f}",
    }


def one_answer_too_many():
    def spent(answers, analysis="published"):
        noise = {"inverse_scale": 2 / 50, "answers": answers}
        return accounting.noisy_vote(**noise, analysis=analysis)

    over = spent(11)
    return {
        "dpbag-first-tight": f"{spent(1, 'tight').epsilon(1e-5):.3f}",
        "dpbag-first-published": f"{spent(1).epsilon(1e-5):.3f}",
        "dpbag-overshoot": f"{over.epsilon(1e-3):.3f}",
        "dpbag-stated-cost": f"{over.epsilon(1e-5):.2f}",
    }


def counterexample():
    leak = dpbag.votes.counterexample()
    assert leak["labels"].tolist() == [27, 7]  # of one record more


def label_counts():
    labels = LABELS.dropna(subset=["published", "reproduced"])
    saa, bagged = (labels[labels["method"] == name] for name in ("saa", "dpbag"))
    assert (saa["difference"] == 0).all()
    relative = bagged["relative"].abs()
    far = bagged[relative > 0.15]
    assert ((far["n_teachers"] == 50) & (far["epsilon"] == 1)).all()
    price = dpbag.results.implied_fractions(LABELS).query("n_teachers == 50")
    full = price[[f"ours_{epsilon}" for epsilon in (1, 3, 5)]]
    assert full.min(axis=None) > 0.85  # "nearly the full price of each label"
    assert (
        price["published_1"].between(0.45, 0.55).all()
    )  # "about half of this price"
    near = relative[~relative.index.isin(far.index)]
    boosted = dpbag.results.cells(experiments.rows("dpbag_adult_boosting"), "labels")
    many = boosted.dropna(subset=["reproduced"]).query("method == 'dpbag'")
    return {
        "dpbag-cells": len(bagged),
        "dpbag-far": len(far),
        "dpbag-fewer": f"{-far['relative'].max():.0%} to {-far['relative'].min():.0%}",
        "dpbag-near": f"{near.max():.0%}",
        "dpbag-median": f"{near.median():.1%}",
        "dpbag-boosted-off": f"{many['relative'].abs().max():.1%}",
    }


def outcomes():
    card = scorecard.cells("dpbag")
    values = {"dpbag-outcomes": scorecard.in_words(card)}
    for name, numbers in (("logistic", "56"), ("boosting", "78")):
        own = [cell for cell in card if cell.table[-1] in numbers]
        values[f"dpbag-outcomes-{name}"] = scorecard.in_words(own)
    for claim in ledger.LEDGER:
        if claim.chapter == "dpbag":
            values[f"dpbag-claim-{claim.number}"] = claim.status
    return values


def orderings():
    lines = dpbag.results.orderings(ROWS).set_index("ordering")
    assert (lines["ours_reversed"] == 0).all()  # "in every case in which ten runs"
    assert lines.loc["more_labels", "published"] == "holds"
    minus = lines.loc["naive_above_saa"]
    assert minus["ours_holds"] == 0  # "DPBag- is ahead of SAA"
    implied = dpbag.results.implied_fractions(LABELS)
    gains = 1 / implied.filter(like="published_").min(axis=None)
    assert gains <= 2  # "at most a factor of 2 in the paper's tables"
    values = {"dpbag-minus-behind": int(minus["published_reversed"])}
    for name in ("published", "ours"):
        values[f"dpbag-minus-{name}"] = (
            f"{minus[f'{name}_holds']} of {minus[f'{name}_cells']}"
        )
    return values


def _of_variant(metric, query):
    shown = VARIANTS.query(query)
    return shown.set_index(["n_teachers", "epsilon"])[metric]


def _gains(query, other):
    """Differences of AUROC in the settings that both have, and their mean."""
    runs = int(ROWS["seed"].nunique())

    def means(query):
        columns = VARIANTS.query(query).set_index(["n_teachers", "epsilon"])
        found = columns[["auroc", "auroc_std"]].itertuples()
        return {at: Mean.of(mean, std, runs) for at, mean, std in found}

    one, others = means(query), means(other)
    gains = [one[at] - others[at] for at in one if at in others]
    return gains, sum(gains, start=Mean(0.0)) * (1 / len(gains))


def sound_accounting():
    gains, mean = _gains(TIGHT, PERSONALISED)
    lead = verdict(above(mean))
    assert lead == "holds"  # "AUROC points ahead on average"
    held = [verdict(above(gain)) for gain in gains].count("holds")
    public = 16_280  # rows there are
    labelled = _of_variant("labels", TIGHT)
    more = labelled / _of_variant("labels", PERSONALISED)
    assert (more[labelled < public] > 1).all()
    assert labelled[more.idxmin()] == public  # "gain in labels is smallest"
    return {
        "dpbag-sound-cells": f"{held} of {len(gains)}",
        "dpbag-sound-gain": f"{100 * mean.value:+.1f}",
        "dpbag-sound-labels": f"{more.min():.1f} to {more.max():.1f}",
    }


def filters():
    half = "confidence == 0.75 and vote_fraction == 0.75"
    given_up = _of_variant("accuracy", TIGHT) - _of_variant("accuracy", half)
    values = {"dpbag-filter-accuracy": f"{100 * given_up.mean():.1f}"}
    answers = {}
    settings = {
        "all": "confidence == 0 and vote_fraction == 1",
        "75": half,
        "25": "confidence == 0.9 and vote_fraction == 0.25",
    }
    for name, setting in settings.items():
        _, mean = _gains(setting, TIGHT)
        answers[name] = compared(mean, Mean(0.0))
        points = round(100 * mean.value, 1) + 0  # no -0.0
        values[f"dpbag-filter-{name}"] = f"{points:+.1f}"
    assert answers["75"] in ("ahead", "equal")  # "this costs no AUROC"
    assert answers["25"] == "behind"  # "this gives up more signal than noise"
    return values


def many_partitions():
    effect = dpbag.results.partitions_effect(ROWS)
    assert (effect["label_gain"].abs() < 100 / effect["n_teachers"]).all()
    assert effect["label_gain"].abs().max() < 1.5
    return {
        "dpbag-many-most": f"{effect['label_gain'].abs().max():.1f}",
        "dpbag-many-auroc": f"{effect['auroc_gain'].abs().max():.1f}",
    }


def minutes_to_read():
    return {"dpbag-minutes": Chapter("dpbag").minutes}


def strip_at_the_head():
    lines = [
        Line(24, "least delta at epsilon = 1", pattern="{:g}"),
        Line(25, "least delta at which the loop gives at least", pattern="{:.2g}"),
        Line(
            26,
            "labels of one partition by tight accounting divided by the published",
            pattern="{:.2g}",
        ),
    ]
    return strip.values("dpbag", lines, scorecard.cells("dpbag"))
