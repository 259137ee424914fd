"""Audits by scores: coverage counted exactly, power where the truth is known, and
bad input.
"""

from functools import cache

import numpy as np
import pytest
from scipy import stats

from dpnotes.accounting import (
    approximate,
    audit_epsilon,
    bagging,
    dp_sgd,
    gaussian,
    pure,
)
from dpnotes.auditing import audit_scores, runs_needed
from dpnotes.auditing._region import (
    Counts,
    Curve,
    least_delta,
    least_epsilon,
    least_mu,
    least_tpr,
)
from dpnotes.auditing._scores import _best_events, _counted

LEVEL = 0.05


def every_outcome(positives, negatives):
    """Counts of all outcomes, and their probabilities at true rates."""
    k, j = np.indices((positives + 1, negatives + 1)).reshape(2, -1)

    def probability(tpr, fpr):
        return stats.binom.pmf(k, positives, tpr) * stats.binom.pmf(j, negatives, fpr)

    numbers = np.broadcast_arrays(k, positives, j, negatives)
    return Counts(*np.array(numbers, dtype=float)), probability


@pytest.mark.parametrize(
    ("tpr", "fpr"), [(0.731, 0.269), (0.3, 0.0), (0.05, 0.01), (0.999, 0.5), (1.0, 0.2)]
)
def test_bounds_fail_as_rarely_as_stated(tpr, fpr):
    """Summed over all outcomes of 40 and 30 runs; a region of half the level would
    notice if the other half failed.
    """
    counts, probability = every_outcome(40, 30)
    frontier, mass = counts.frontier(LEVEL, 128), probability(tpr, fpr)
    epsilon = np.inf
    if fpr and tpr < 1:
        epsilon = np.log(max((tpr - 0.01) / fpr, (0.99 - fpr) / (1 - tpr)))
    delta = max(tpr - np.exp(0.5) * fpr, 1 - fpr - np.exp(0.5) * (1 - tpr))
    mu = stats.norm.ppf(tpr) - stats.norm.ppf(fpr)
    wrong = [
        least_epsilon(frontier, 0.01) > epsilon + 1e-12,
        least_delta(frontier, 0.5) > delta,
        least_mu(frontier) > mu,
        least_tpr(frontier, fpr) > tpr,
    ]
    failed = mass[np.any(wrong, axis=0)].sum()
    assert failed <= LEVEL  # jointly
    if tpr == 0.731:
        assert failed > 1e-4  # not by proving nothing


@pytest.mark.parametrize(
    "claim", [pure(1.0), gaussian(sigma=0.7), approximate(0.2, 0.1)]
)
def test_true_claims_are_refuted_as_rarely_as_stated(claim):
    """At every pair of rates on the claim's own curve: the exact probability that
    the p-value is at most the level.
    """
    counts, probability = every_outcome(40, 30)
    curve = Curve.of(claim)
    p_values = np.exp(counts.log_p_value(curve, 128))
    for level in (0.05, 0.01):
        chances = [
            probability(claim.tpr(fpr), fpr)[p_values <= level].sum()
            for fpr in (0.0, 0.01, 0.1, 0.3, 0.6, 0.9, 1.0)
        ]
        assert max(chances) <= level
    beyond = probability(0.95, 0.05)[p_values <= 0.05].sum()
    assert beyond > 0.5  # another mechanism is


def test_the_whole_procedure_on_randomised_response():
    """Choice on the first split and count on the second, summed over all outcomes of
    8 + 8 and of 20 + 20 runs.
    """
    claim = pure(1.0)
    curve, truth = Curve.of(claim), np.exp(1.0) / (1 + np.exp(1.0))
    counts, probability = every_outcome(20, 20)
    mass = probability(truth, 1 - truth)
    answers = np.tile([[0.0], [1.0]], (10, 1))

    @cache
    def failures(level, above, everything):
        """Which outcomes refute the true claim by this event, and which give a bound
        beyond it.
        """
        k, j = (
            np.full(len(mass), 20.0) if everything else n
            for n in (counts.true_positives, counts.false_positives)
        )
        k, j = (k, j) if above else (20 - k, 20 - j)
        seen = Counts(k, counts.positives, j, counts.negatives)
        return (
            np.exp(seen.log_p_value(curve, 256)) <= level,
            least_epsilon(seen.frontier(level, 64), 0.0) > 1.0,
        )

    failed, total = np.zeros(2), 0.0
    for ones in np.ndindex(9, 9):
        chance = np.prod(
            [
                stats.binom.pmf(n, 8, p)
                for n, p in zip(ones, (truth, 1 - truth), strict=True)
            ]
        )
        first = [(np.arange(8) < n).astype(float) for n in ones]
        named = {"score": "answer", "column": 0}
        tried = [named | row for row in _best_events(first, (20, 20), curve, LEVEL)]
        events = _counted(tried, (answers, answers), LEVEL)
        assert sum(event.level for event in events) == pytest.approx(LEVEL)
        rows = [row for row in tried if "level" in row]
        wrong = np.any(
            [
                failures(round(row["level"], 12), row["above"], row["threshold"] <= 0)
                for row in rows
            ],
            axis=0,
        )
        failed += chance * (wrong * mass).sum(1)
        total += chance * mass.sum()
    assert total == pytest.approx(1.0)
    assert failed.min() > 1e-4
    assert failed.max() <= LEVEL


def normal(mean, runs):
    """Scores at equally likely quantiles, in no order."""
    return np.random.default_rng(5).permutation(
        stats.norm.ppf((np.arange(runs) + 0.5) / runs) + mean
    )


def test_gaussian_noise_reaches_most_of_its_mu():
    claim = gaussian(sigma=1.0)
    report = audit_scores(normal(1.0, 2000), normal(0.0, 2000), claim=claim)
    assert 0.8 < report.mu < 1
    assert not report.refuted
    assert report.epsilon(1e-5) < claim.epsilon(1e-5)
    assert 0.8 * claim.advantage < report.delta(0.0) < claim.advantage
    rates = np.linspace(0, 1, 50)
    assert (report.tpr(rates) <= claim.tpr(rates) + 1e-12).all()
    assert audit_scores(
        normal(1.0, 2000), normal(0.0, 2000), claim=gaussian(sigma=1.3)
    ).refuted
    # without a claim
    assert audit_scores(normal(1.0, 2000), normal(0.0, 2000)).mu > 0.8


@pytest.mark.parametrize(
    ("claim", "shown", "mistaken", "false"),
    [
        (bagging(n=5, subsample=1), 0.2, 0.0, bagging(n=7, subsample=1)),
        (pure(2.0), 1 / (1 + np.exp(-2)), 1 / (1 + np.exp(2)), pure(1.5)),
    ],
)
def test_yes_or_no_reaches_most_of_its_delta(claim, shown, mistaken, false):
    """A record that shows with one chance and is suspected with the other; a claim
    of less falls.
    """
    share = np.random.default_rng(0).permutation(2000) / 2000
    members = (share < shown).astype(float)
    nonmembers = (share[::-1] < mistaken).astype(float)
    report = audit_scores(members, nonmembers, claim=claim)
    assert not report.refuted
    assert 0.8 * claim.advantage < report.delta(0.0) < claim.advantage
    assert audit_scores(members, nonmembers, claim=false).refuted


def test_each_direction_is_taken_at_its_word():
    """DP-SGD at a small rate allows less of one kind than of the other; both claims
    are true of what they are of.
    """
    claim = dp_sgd(noise_multiplier=0.6, sample_rate=0.05, steps=1)
    generator = np.random.default_rng(3)
    noise = generator.normal(scale=0.6, size=(2, 4000))
    members = noise[0] + (generator.random(4000) < 0.05)
    assert not audit_scores(members, noise[1], claim=claim).refuted
    assert audit_scores(members, noise[1], claim=claim).delta(1.0) <= claim.delta(1.0)
    rates = np.linspace(0, 1, 101)
    allowed = Curve.of(claim).most(rates)
    assert (allowed <= claim.tpr(rates) + 1e-3).all()
    assert allowed[90] < claim.tpr(0.9) - 1e-3


@pytest.mark.parametrize(
    "claim",
    [
        gaussian(sigma=0.8),
        pure(0.7),
        gaussian(sigma=0.8, adjacency="replace-one"),
        approximate(1.0, 0.05),
    ],
)
def test_curve_is_above_the_claim(claim):
    curve = Curve.of(claim)
    rates = np.concatenate([[0.0], np.geomspace(1e-6, 1, 60)])
    assert (curve.most(rates) >= claim.tpr(rates) - 1e-12).all()
    np.testing.assert_allclose(curve.most(rates), claim.tpr(rates), atol=2e-3)


def test_the_region_proves_more_than_two_intervals():
    """At equal rates of error, and never much less where one of the counts is zero."""
    for mistaken, more in ((300, 0.04), (0, -0.2)):
        numbers = [700, 1000, mistaken, 1000]
        frontier = Counts(*np.array(numbers, dtype=float)[:, None]).frontier(LEVEL)
        names = ("true_positives", "positives", "false_positives", "negatives")
        by_intervals = audit_epsilon(
            **dict(zip(names, numbers, strict=True)), delta=1e-5
        )
        assert least_epsilon(frontier, 1e-5)[0] > by_intervals + more


def test_direction_order_and_units_do_not_matter():
    members, nonmembers = normal(1.0, 300), normal(0.0, 300)
    report = audit_scores(members, nonmembers, claim=pure(0.1))
    for turned in (
        audit_scores(-members, -nonmembers, claim=pure(0.1)),
        audit_scores(np.exp(members), np.exp(nonmembers), claim=pure(0.1)),
    ):
        assert turned.p_value == pytest.approx(report.p_value, rel=1e-9)
    # the division is random, whatever the order
    ordered = audit_scores(np.sort(members), np.sort(nonmembers))
    assert ordered.mu < 1.3


def test_several_scores_and_their_combination():
    generator = np.random.default_rng(2)
    members = generator.normal(size=(800, 3))
    nonmembers = generator.normal(size=(800, 3))
    members += [0.0, 0.8, 0.8]
    report = audit_scores(members, nonmembers, names=["noise", "loss", "margin"])
    assert set(report.tried["score"]) == {"noise", "loss", "margin", "combined"}
    assert "combined" in report.strategy
    alone = audit_scores(members[:, 1], nonmembers[:, 1])
    assert alone.mu < report.mu < np.sqrt(2) * 0.8
    # scores without a finite value are ranked, and left out of the combination
    members[:, 2] = np.inf
    assert np.isfinite(audit_scores(members, nonmembers).mu)


def test_runs_needed_is_the_fewest_that_can_refute():
    for claim in (pure(0.5), gaussian(sigma=0.6), approximate(1.0, 0.3)):
        needed = int(runs_needed(claim))
        enough, short = (
            audit_scores(np.ones(runs), np.zeros(runs), claim=claim)
            for runs in (needed, needed - 1)
        )
        assert enough.refuted
        assert not short.refuted
        assert f"at least {needed} are needed" in short.remarks[-1]
        assert not any("needed" in remark for remark in enough.remarks)
    assert runs_needed(approximate(0.0, 1.0)) == np.inf


def test_constant_scores_prove_nothing_and_say_so():
    report = audit_scores(np.full(50, 3.0), np.full(50, 3.0), claim=pure(0.01))
    assert not report.refuted
    assert (report.mu, report.epsilon(0.0), report.delta(0.0), report.tpr(0.2)) == (
        0.0,
        0.0,
        0.0,
        0.2,
    )
    assert "all runs have the same scores" in report.remarks[0]
    assert "all runs of a kind" in audit_scores(np.ones(50), np.zeros(50)).remarks[0]


def test_report_as_text_table_and_picture():
    report = audit_scores(normal(2.0, 200), normal(0.0, 200), claim=gaussian(sigma=1.0))
    assert str(report).startswith("The claim is REFUTED, p-value")
    assert "mu at least: 1." in str(report)
    assert repr(report) == str(report)
    labels = report.plot().axes[0].get_legend_handles_labels()[1]
    assert "its limits, confidence 0.95" in labels
    assert "least that the claim allows" in labels
    assert str(audit_scores(normal(2.0, 20), normal(0.0, 20))).startswith(
        "Audit without a claim"
    )
    assert report.epsilon([0.0, 0.1]).shape == (2,)
    assert report.tpr(0.1) > 0.1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"members": [1.0, np.nan, 2.0, 3.0]},
            r"members must hold no NaN, got 1 runs with one; .* -inf",
        ),
        (
            {"nonmembers": [1.0, 2.0, 3.0]},
            r"nonmembers must hold at least 4 runs, got 3",
        ),
        ({"members": np.zeros((5, 2))}, "must have the same scores, got 2 and 1"),
        (
            {"members": np.zeros((5, 2, 2))},
            r"members must have shape \[runs\] or \[runs, scores\]",
        ),
        ({"confidence": 1.0}, r"confidence must be in \(0, 1\)"),
        ({"holdout": 1.0}, r"holdout must be in \(0, 1\)"),
        ({"names": ["a", "b"]}, "names must name 1 scores"),
        (
            {"claim": pure(1.0, adjacency="replace-one"), "adjacency": "add-remove"},
            "claim must be for the adjacency of the runs",
        ),
        ({"adjacency": "add"}, "adjacency must be one of"),
    ],
)
def test_bad_input_is_named(arguments, message):
    scores = {"members": np.arange(5.0), "nonmembers": np.arange(5.0)}
    with pytest.raises(ValueError, match=message):
        audit_scores(**{**scores, **arguments})


def test_a_score_that_never_changes_is_not_chosen():
    constant, rate = 2000, np.array([0.9997501249375312])
    expected = Counts(
        20_000 * rate, np.full(1, 20_000.0), 20_000 * rate, np.full(1, 20_000.0)
    )
    assert expected.log_p_value(Curve.of(gaussian(sigma=1 / 0.56)), 64) > -1
    telling = [np.random.default_rng(k).normal(k, 1, 2 * constant) for k in (3, 0)]
    scores = [np.column_stack([np.zeros_like(kind), kind]) for kind in telling]
    assert (
        "constant"
        not in audit_scores(
            *scores, claim=gaussian(sigma=2.0), names=["constant", "telling"]
        ).strategy
    )
