"""Profiles from their descriptions and from the events of another library, and back."""

import inspect
import json

import dp_accounting as dp
import pytest
from dp_accounting.pld import PLDAccountant

from dpnotes import accounting
from dpnotes.accounting import (
    PrivacyProfile,
    approximate,
    bagging,
    chunk_filter,
    compose,
    confident_gnmax,
    dp_sgd,
    from_dict,
    from_event,
    gaussian,
    gaussian_of_advantage,
    gnmax,
    laplace,
    last_iterate,
    loss_perturbation,
    neighboring_relation,
    noisy_vote,
    papers,
    pure,
    soft_vote,
    subsampled,
    to_event,
    zcdp,
)
from dpnotes.accounting._profile import IMPLIED

RUN = {"noise_multiplier": 1.5, "n": 1000, "epochs": 2, "accountant": "rdp"}
PROFILES = {
    "gaussian": lambda: gaussian(sigma=2.0, sensitivity=3.0, adjacency="replace-one"),
    "gaussian, composed for a group": lambda: gaussian(sigma=2.0).compose(5).group(2),
    "gaussian of advantage": lambda: gaussian_of_advantage(0.1),
    "laplace": lambda: laplace(scale=2.0, adjacency="zero-out"),
    "laplace, composed": lambda: laplace(scale=10.0).compose(7),
    "pure": lambda: pure(0.3).compose(4),
    "approximate": lambda: approximate(0.3, 1e-6),
    "zcdp": lambda: zcdp(0.1).compose(2),
    "bagging": lambda: bagging(n=1000, subsample=10, n_models=3),
    "bagging, published": lambda: bagging(n=1000, subsample=10, n_models=3, analysis="published"),
    "soft vote": lambda: soft_vote(beta=0.5, answers=3),
    "noisy vote": lambda: noisy_vote(noise=0.2, answers=3),
    "gnmax": lambda: gnmax(sigma=20.0, answers=10),
    "confident gnmax": lambda: confident_gnmax(sigma_threshold=20.0, sigma_answer=9.0, queries=10, answers=4),
    "chunk filter": lambda: chunk_filter(budget=1.0, sigma=5.0),
    "last iterate": lambda: last_iterate(sigma=1.0, shift=0.1, steps=50, contraction=0.9),
    "poisson": lambda: dp_sgd(noise_multiplier=1.0, sample_rate=0.01, steps=100, accountant="rdp"),
    "truncated": lambda: dp_sgd(
        **RUN, sample_rate=0.05, max_batch_size=60, sampling="truncated-poisson", adjacency="zero-out"
    ),
    "fixed size": lambda: dp_sgd(**RUN, batch_size=50, sampling="fixed-size", adjacency="replace-one"),
    "balls in bins": lambda: dp_sgd(**RUN, batch_size=50, sampling="balls-in-bins"),
    "shuffle": lambda: dp_sgd(**RUN, batch_size=50, sampling="shuffle", adjacency="zero-out"),
    "subsampled": lambda: subsampled(laplace(scale=1.0), sample_rate=0.1).compose(3),
    "subsampled with replacement": lambda: subsampled(
        gaussian(sigma=1.0, adjacency="replace-one"), n=100, subsample=5, replace=True
    ),
    "composition": lambda: compose(compose(laplace(scale=1.0), zcdp(0.1)), gaussian(sigma=3.0)).compose(2),
    "loss perturbation": lambda: loss_perturbation(n_classes=3, regulariser=100.0, sigma=20.0),
    "of a paper": lambda: papers.intrinsic_sgd(sigma=1.0, sensitivity=0.1),
    "for a group, composed": lambda: zcdp(0.1).group(2).compose(3),
    "composed, for a group": lambda: dp_sgd(**RUN, sample_rate=0.1).compose(3).group(2),
    "on a grid": lambda: dp_sgd(noise_multiplier=1.0, sample_rate=0.1, steps=10, interval=0.2),
    "composition on a grid": lambda: compose(laplace(scale=1.0), gaussian(sigma=3.0), interval=0.2),
    "with other words": lambda: pure(1.0).with_(status="assumption", assumption="rows are clipped", remark="so"),
}


def same_again(profile):
    described = json.loads(json.dumps(profile.to_dict(), allow_nan=False))
    again = from_dict(described)
    told = json.loads(json.dumps(again.to_dict()))
    assert told.pop("advantage") == pytest.approx(described.pop("advantage"), rel=1e-12)
    assert told == described
    assert again.delta([0.0, 0.7]) == pytest.approx(profile.delta([0.0, 0.7]), rel=1e-12)


@pytest.mark.parametrize("name", PROFILES)
def test_a_description_gives_the_profile_back(name):
    """Also where it is converted to each adjacency that it implies, and composed then."""
    profile = PROFILES[name]()
    same_again(profile)
    converted = [profile.for_adjacency(to, assumed=True) for given, to in IMPLIED if given == profile.adjacency]
    for each in converted:
        same_again(each)
    for each in converted[-1:]:
        same_again(compose(each.compose(2), pure(0.1, adjacency=each.adjacency)))


def test_descriptions_of_all_constructors_are_checked():
    public = {**vars(accounting), **vars(papers)}
    made = {name for name, each in public.items() if inspect.isfunction(each)
            and inspect.signature(each).return_annotation == "PrivacyProfile"}  # fmt: skip
    others = {"from_dict", "from_event", "pure", "gaussian_of_advantage"}  # the last two are described as special cases
    private = {"personalised_vote"}
    assert made - others - private == {profile().mechanism for profile in PROFILES.values()}


def test_a_description_tells_what_was_converted():
    profile = gaussian(sigma=2.0).for_adjacency("zero-out", assumed=True).for_adjacency("replace-one").compose(3)
    assert dict(profile.parameters) == {
        "adjacency": "add-remove", "sigma": 2.0, "sensitivity": 1.0, "group": 2, "times": 3
    }  # fmt: skip
    same_again(profile)


def test_descriptions_that_name_nothing():
    about = {"parameters": {}, "adjacency": "add-remove"}
    for name in ("random", "_pld", "hockey_stick", "PrivacyProfile"):
        with pytest.raises((ValueError, TypeError)):
            from_dict({"mechanism": name, **about})
    with pytest.raises(ValueError, match="counts of gnmax are private"):
        from_dict(gnmax(sigma=5.0, counts=[[90, 10]], adjacency="replace-one").to_dict())
    with pytest.raises(ValueError, match="squares of personalised_vote are private"):
        from_dict(papers.personalised_vote([0, 38], noise=0.04, n_partitions=1, answers=38).to_dict())


GAUSS = dp.GaussianDpEvent(2.0)
EVENTS = [
    GAUSS,
    dp.LaplaceDpEvent(3.0),
    dp.SelfComposedDpEvent(dp.LaplaceDpEvent(30.0), 10),
    dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(0.05, GAUSS), 50),
    dp.PoissonSampledDpEvent(0.1, dp.LaplaceDpEvent(1.0)),
    dp.TruncatedSubsampledGaussianDpEvent(500, 0.02, 14, 2.0),
    dp.ComposedDpEvent([dp.PoissonSampledDpEvent(0.1, GAUSS), dp.LaplaceDpEvent(4.0)]),
]


@pytest.mark.parametrize("event", EVENTS, ids=str)
def test_both_libraries_agree_on_an_event(event):
    profile = from_event(event)
    theirs = PLDAccountant(neighboring_relation("add-remove"), value_discretization_interval=1e-3).compose(event)
    assert profile.epsilon(1e-5) <= theirs.get_epsilon(1e-5) * 1.001
    looser = (
        0.7 if isinstance(event, dp.TruncatedSubsampledGaussianDpEvent) else 0.99
    )  # theirs takes an exchange for it
    assert profile.epsilon(1e-5) >= theirs.get_epsilon(1e-5) * looser - 2e-3  # their grid
    assert to_event(profile) == event
    assert from_event(to_event(profile)).epsilon(1e-5) == profile.epsilon(1e-5)


@pytest.mark.parametrize("adjacency", ["zero-out", "replace-one"])
@pytest.mark.parametrize("event", [GAUSS, dp.PoissonSampledDpEvent(0.1, GAUSS)], ids=str)
def test_noise_multipliers_are_in_units_of_one_record(event, adjacency):
    profile = from_event(event, adjacency=adjacency)
    theirs = PLDAccountant(neighboring_relation(adjacency), value_discretization_interval=1e-3).compose(event)
    assert profile.epsilon(1e-5) == pytest.approx(theirs.get_epsilon(1e-5), rel=2e-3)
    assert to_event(profile) == event


def test_events_of_zcdp_and_of_batches_of_fixed_size():
    theirs = dp.rdp.RdpAccountant([1 + each / 10 for each in range(1, 500)]).compose(dp.ZCDpEvent(0.1))
    assert from_event(dp.ZCDpEvent(0.1)).epsilon(1e-5) == pytest.approx(theirs.get_epsilon(1e-5), rel=1e-3)
    event = dp.SelfComposedDpEvent(dp.SampledWithoutReplacementDpEvent(1000, 20, GAUSS), 5)
    assert to_event(from_event(event, adjacency="replace-one")) == event
    assert from_event(dp.NonPrivateDpEvent()).delta(10.0) == 1
    assert from_event(dp.NoOpDpEvent()).epsilon(0.0) == 0


def test_what_has_no_event_and_what_no_profile():
    for profile in (
        bagging(n=10, subsample=1),
        PROFILES["balls in bins"](),
        laplace(scale=1.0, adjacency="replace-one"),
    ):
        with pytest.raises(ValueError, match="profile must be of a mechanism that dp_accounting has an event for"):
            to_event(profile)
    for event in (dp.UnsupportedDpEvent(), dp.PoissonSampledDpEvent(0.1, dp.ZCDpEvent(1.0)), dp.ComposedDpEvent([])):
        with pytest.raises(ValueError, match="event must be of a kind that has a profile"):
            from_event(event)
    with pytest.raises(TypeError, match="profile must be a PrivacyProfile"):
        to_event(GAUSS)
    assert isinstance(from_event(GAUSS), PrivacyProfile)
