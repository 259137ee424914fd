"""What the chapter on private prediction says of the published rows."""

import numpy as np

from dpnotes.lab import experiments, ledger, scorecard, strip
from dpnotes.lab import private_prediction as pp
from dpnotes.lab.chapters import Chapter
from dpnotes.lab.experiments import paper_table
from dpnotes.lab.strip import Line
from dpnotes.lab.verdicts import above, verdict

DELTA = 1e-5
ROWS = pp.results.put_together(
    *(experiments.rows(f"private_prediction_{name}") for name in pp.grids.GRIDS)
)
SHOWN = {
    analysis: pp.results.Look(ROWS, analysis) for analysis in ("tight", "published")
}


def noise_of_answers():
    budgets = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
    noise = pp.results.noise_by_answers(budgets, epsilon=1.0, delta=DELTA)
    dominated = noise["exact"] >= noise["model"]
    assert dominated.all()  # "would still lose to the model sensitivity method"
    assert noise["ratio"].is_monotonic_increasing
    assert noise["ratio"].max() > 5  # "more than five times"
    lead_needed = 2 * np.log(9 * 19)  # in votes, for each answer: exercise 1
    return {
        "pp-quieter": int(((784 * 9 + 1) / 10) ** 0.5),
        "pp-unanimous-lead": f"{lead_needed:.2f}",
        "pp-unanimous": int(256 / lead_needed),
        "pp-unanimous-published": int(256 / (lead_needed / 2)),
        "pp-ratio-100": f"{noise.set_index('answers').loc[100, 'ratio']:.1f}",
    }


def noise_in_the_loss():
    by_penalty = pp.results.loss_noise(
        (1e-5, 1e-4, 1e-3, 1e-2, 1e-1),
        deltas=(0.0, DELTA),
        **{"n": 60_000, "d": 784, "n_classes": 10, "epsilon": 1.0},
    )
    ratios = by_penalty["ratio"]
    assert (ratios > 1).all()
    assert ratios.max() > 3  # "several times smaller than published"
    assert (
        by_penalty.query("l2 >= 1e-3")["volume"].lt(0.02).all()
    )  # nearly all is left
    return {"pp-loss-ratio": f"{ratios.min():.1f} to {ratios.max():.1f}"}


def crossings():
    values = {}
    for delta, name in ((0.0, "pp-crossing-pure"), (1e-5, "pp-crossing")):
        sound, published = (
            pp.results.crossing_at(ROWS, analysis=analysis, delta=delta)
            for analysis in ("tight", "published")
        )
        # "at less than half as many answers", for both deltas; a gap is none
        # "It therefore overtakes the votes at a smaller number"
        assert not sound[1] > published[0]
        assert not 2 * sound[1] > published[1]
        values[name] = pp.results.crossing_in_words(sound)
        values[f"{name}-published"] = pp.results.crossing_in_words(published)
    return values


def outcomes():
    values = {
        "pp-repeats": pp.grids.repeats_in_words(),
        "pp-outcomes": scorecard.in_words(scorecard.cells("private_prediction")),
    }
    said = paper_table("outcomes_private_prediction")
    sentences = said["tight"].dropna()
    found = sentences.value_counts()
    assert set(found.index) <= {"holds", "reversed", "undecided"}
    values["pp-sentences"] = len(sentences)
    for answer in ("holds", "reversed", "undecided"):
        values[f"pp-tight-{answer}"] = int(found.get(answer, 0))
    arrows = said[said["tight"].isna()]["answer"]
    decided = arrows[arrows.isin(["holds", "reversed"])]
    values["pp-arrows"] = f"{(decided == 'holds').sum()} of {len(decided)}"
    for claim in ledger.LEDGER:
        if claim.chapter == "private_prediction":
            values[f"pp-claim-{claim.number}"] = claim.status
    return values


def order_of_methods():
    for look in SHOWN.values():
        at = {}
        for name in pp.grids.METHODS:
            at[name] = look(name, "epsilon", 1e-5).accuracy
        answers = [at.pop(name) for name in pp.grids.ANSWERING]
        least = np.min([*at.values()], axis=0)
        highest = np.max([*at.values()], axis=0)
        # "higher mean accuracy than both methods of private prediction, at every"
        assert (least > np.max(answers, axis=0)).all()
        assert (at["dp_sgd"] == highest).all()  # "has the highest mean"

    tight = SHOWN["tight"]
    noisy, voted = (tight(name, "answers").means for name in pp.grids.ANSWERING)
    released = tight.mean("loss_perturbation", "epsilon", 1.0).value
    for on_logits, votes in zip(noisy, voted, strict=True):
        assert on_logits.value < max(votes.value, released)  # "is never the highest"


def leads_of_loss_perturbation():
    def lead(loss, model):
        at = ("epsilon", 1.0)
        ahead = SHOWN[loss].mean("loss_perturbation", *at)
        return ahead - SHOWN[model].mean("model_sensitivity", *at)

    found = {
        "pp-lead": lead("tight", "tight"),
        "pp-lead-published": lead("published", "published"),
        "pp-lead-mixed": lead(
            "published", "tight"
        ),  # one record more or less for both
    }
    verdicts = [verdict(above(each)) for each in found.values()]
    # "gives the best of the released models": the other one is model sensitivity
    assert verdicts[:2] == ["holds", "holds"]  # "ahead of model sensitivity"
    assert verdicts[2] == "reversed"  # "Loss perturbation is then"
    return {name: f"{100 * abs(each.value):.1f}" for name, each in found.items()}


def attack_on_votes():
    attack = pp.results.vote_attack(epsilon=1.0, n_models=4, trials=20_000, seed=0)
    caught = attack.set_index("analysis")["caught"].to_dict()
    # "answers reveal a larger epsilon than claimed"
    assert caught == {"published": True, "tight": False}
    assert (attack["audited"] <= attack["exact"]).all()


def minutes_to_read():
    return {"pp-minutes": Chapter("private_prediction").minutes}


def strip_at_the_head():
    lines = [
        Line(19, "epsilon of one answer", pattern="{:g}"),
        Line(18, "published sigma over the exact one", pattern="{:.2g}"),
        Line(15, "sensitivity of the minimiser", pattern="{:.2g}"),
    ]
    return strip.values("pp", lines, scorecard.cells("private_prediction"))
