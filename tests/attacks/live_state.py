"""What changes a guarantee, a budget or a profile after the fit.

The target is a function (X, y, **parameters) that fits.
"""

import contextlib

import numpy as np
from sklearn.tree import DecisionTreeClassifier

from dpnotes.accounting import STATUSES
from dpnotes.methods import DPBag
from tests.attacks import broken
from tests.attacks.catalogue import Evidence, attack
from tests.attacks.ours import SETTINGS, WITH_BUDGET, answers, ours, queries, table

X, Y = table()
BROKEN = broken.fit(broken.LiveVote)
# say how to compute, or the shape of a query
COMPUTING = {"device", "n_jobs", "network"}


@attack(broken=BROKEN, ours=ours())
def any_parameter_after_fit(target):
    """After the fit, replace each parameter by an object that no computation can
    use. Which ones are read?
    """
    expected, live = answers(target(X, Y, noise_seed=1)), []
    for name in sorted(
        set(target(X, Y, noise_seed=1).get_params(deep=False)) - COMPUTING
    ):
        fitted = target(X, Y, noise_seed=1)
        setattr(fitted, name, object())
        try:
            changed = not np.array_equal(answers(fitted), expected)
        except (TypeError, ValueError, AttributeError):
            changed = True
        live += [name] * changed
    return Evidence(bool(live), f"read after the fit: {', '.join(live) or 'none'}")


@attack(broken=BROKEN, ours=ours("FilteredVote"))
def less_noise_after_fit(target):
    """Fit with sigma = 1000, call set_params(sigma=1e-9), and ask queries."""
    labels = (X[:, 0] > 0).astype(int)
    fitted = target(X, labels, answers=1000)
    fitted.set_params(sigma=1e-9)
    # each teacher agrees on this query
    asked = np.tile(5 * np.eye(X.shape[1])[0], (4, 1))
    correct = np.mean(
        np.concatenate(
            [
                fitted.predict(sign * asked) == (sign > 0)
                for sign in (1, -1)
                for _ in "12345"
            ]
        )
    )
    return Evidence(
        correct == 1.0, f"{correct:.0%} of 40 answers are the teachers' majority"
    )


def _answers_in_all(fitted):
    """Evidence from five batches of 200 queries."""
    asked = 0
    with contextlib.suppress(RuntimeError):
        for _ in range(5):
            asked += len(fitted.predict(queries()))
    return Evidence(asked > 400, f"{asked} answers for a guarantee of 400")


@attack(broken=BROKEN, ours=ours(*WITH_BUDGET))
def budget_raised_by_assignment(target):
    """Set ``budget_.answers`` of a fitted estimator to a million."""
    fitted = target(X, Y)
    with contextlib.suppress(AttributeError):
        fitted.budget_.answers = 10**6
    return _answers_in_all(fitted)


@attack(broken=BROKEN, ours=ours(*WITH_BUDGET))
def answers_raised_by_parameter(target):
    """Raise the parameter ``answers`` after the fit, and replace ``budget_`` by a
    new budget.
    """
    fitted = target(X, Y)
    fitted.set_params(answers=10**6)
    with contextlib.suppress(AttributeError):
        fitted.budget_ = type(fitted.budget_)(10**6)
    return _answers_in_all(fitted)


@attack(broken=BROKEN, ours=ours(*WITH_BUDGET))
def budget_turned_back(target):
    """Let a spent budget spend a negative number, and resume from fewer answers than
    it has released.
    """
    fitted = target(X, Y)
    fitted.predict(np.tile(queries(), (2, 1)))
    for turn_back in (
        lambda: fitted.budget_.spend(-400),
        lambda: fitted.budget_.resume(released=0),
    ):
        with contextlib.suppress(ValueError, RuntimeError):
            turn_back()
    more = _answers_in_all(fitted).figure.split()[0]
    return Evidence(more != "0", f"{more} more answers after all 400")


@attack(broken=BROKEN, ours=ours("FilteredVote"))
def votes_raised_by_assignment(target):
    """Raise each teacher's budget of votes after the fit."""
    fitted = target(X, Y)
    held = fitted.ledger_ if hasattr(fitted, "ledger_") else fitted.budget_
    for name in ("budget", "answers"):
        with contextlib.suppress(AttributeError):
            setattr(held, name, 10**6)
    if not hasattr(fitted, "ledger_"):
        return _answers_in_all(fitted)
    fitted.predict(queries())
    cast = int(held.spent.max())
    return Evidence(cast > 10, f"{cast} votes of a teacher for a guarantee of 10")


@attack(broken=BROKEN, ours=ours())
def profile_by_assignment(target):
    """Overwrite fields of a fitted estimator's profile, such as its status,
    adjacency and parameters.
    """
    profile = target(X, Y).profile_
    changed = []
    for name in ("status", "adjacency", "assumption", "source", "mechanism"):
        try:
            setattr(profile, name, STATUSES[0])
            changed.append(name)
        except AttributeError:  # a frozen dataclass raises a kind of it
            continue
    try:
        profile.parameters["sigma"] = 1e-9
        changed.append("parameters")
    except TypeError:
        pass
    return Evidence(bool(changed), f"written: {', '.join(changed) or 'nothing'}")


class _Fails(DecisionTreeClassifier):
    """Student whose fit fails once it is told to."""

    told = False

    def fit(self, X, y):
        if type(self).told:
            raise MemoryError("the student's fit failed")
        return super().fit(X, y)


@attack(
    broken=lambda X, y, epsilon: broken.FailsLate(epsilon, _Fails()).fit(X, y),
    ours={
        "DPBag": lambda X, y, epsilon: ours("DPBag")["DPBag"](
            X, y, student=_Fails(), epsilon=epsilon
        ),
        "PATE": lambda X, y, epsilon: ours("PATE")["PATE"](
            X, y, student=_Fails(), sigma_answer=100 / epsilon
        ),
    },
)
def refit_that_fails_late(target):
    """Let a private refit fail at its last step. Does the old student answer under
    the new profile?
    """
    _Fails.told = False
    fitted = target(X, Y, 100.0)
    public = {} if isinstance(fitted, broken.FailsLate) else {"public": queries()}
    before, old = repr(fitted.profile_), fitted.student_
    try:
        _Fails.told = True
        changed = (
            {"sigma_answer": 1000.0}
            if hasattr(fitted, "sigma_answer")
            else {"epsilon": 2.0}
        )
        fitted.set_params(**changed).fit(X, Y, **public)
    except MemoryError:
        pass
    finally:
        _Fails.told = False
    kept = getattr(fitted, "student_", None) is old
    mixed = kept and repr(getattr(fitted, "profile_", None)) != before
    return Evidence(
        mixed,
        (
            "the old student under the new profile"
            if mixed
            else "student and profile of the same fit"
        ),
    )


@attack(
    broken=lambda X, y: broken.personalised(),
    ours={
        "DPBag": (
            lambda X, y: DPBag(n_models=8, n_partitions=2, device="cpu").fit(
                X, y, public=queries()[:2]
            )
        ),
        **ours(
            "ModelSensitivity",
            "DPSGD",
            "NoisySGD",
            "AugmentedSGD",
            "PATE",
            "FilteredVote",
            "Bagging",
        ),
    },
)
def default_that_guarantees_nothing(target):
    """Fit with the default settings. Does the profile look like a guarantee,
    although it is not one?
    """
    profile = target(X, Y).profile_
    return Evidence(
        profile.status not in ("proved", "assumption"), f"status {profile.status!r}"
    )


@attack(broken=BROKEN, ours=ours())
def adjacency_of_the_defaults(target):
    """Look up the default adjacency. If it differs between methods, their epsilons
    cannot be compared.
    """
    adjacency = target(X, Y).profile_.adjacency
    return Evidence(adjacency != "zero-out", f"default adjacency {adjacency!r}")


@attack(broken=BROKEN, ours=ours())
def preparation_that_looks_at_all_rows(target):
    """A StandardScaler in front of the estimator releases means. Does the profile
    mention preparation?
    """
    assumption = target(X, Y).profile_.assumption
    return Evidence(
        "prepared" not in assumption,
        (
            "preparation is mentioned"
            if "prepared" in assumption
            else "preparation is not mentioned"
        ),
    )


class _Meddles(DecisionTreeClassifier):
    """Teacher that always votes for class 1, and that lowers the noise of the
    estimator whose teacher it is.
    """

    owner = None

    def fit(self, X, y):
        noise = {
            "sigma_answer": 1e-9,
            "sigma": 1e-9,
            "inverse_scale": 1e9,
            "epsilon": 1e9,
        }
        known = type(self).owner.get_params(deep=False)
        type(self).owner.set_params(
            **{name: value for name, value in noise.items() if name in known}
        )
        return super().fit(X, y)

    def predict(self, X):
        return np.ones(len(X), dtype=int)


class _Meddled(broken.LiveVote):
    """Votes of one teacher, whose noise is read after the teacher's fit."""

    def fit(self, X, y):
        super().fit(X, y)
        teacher = _Meddles().fit(X, y)
        self.labels_ = (
            teacher.predict(X) * 8 + self.sigma * self.generator_.normal(size=len(X))
            > 4
        )
        return self


def _fit_with_a_meddler(kind, settings):
    def fit(X, y):
        _Meddles.owner = kind(
            **settings | ({"answers": 1000} if "answers" in settings else {})
        )
        if kind is _Meddled:
            return _Meddles.owner.fit(X, y)
        public = (
            {"public": queries()}
            if "student" in _Meddles.owner.get_params(deep=False)
            else {}
        )
        return _Meddles.owner.set_params(estimator=_Meddles(), classes=[0, 1]).fit(
            X, y, **public
        )

    return fit


@attack(
    broken=_fit_with_a_meddler(_Meddled, {}),
    ours={
        name: _fit_with_a_meddler(*SETTINGS[name])
        for name in ("SubsampleAggregate", "FilteredVote", "PATE", "DPBag")
    },
)
def parameter_changed_during_the_fit(target):
    """Let a learner lower the noise during the fit. Do the labels have less noise
    than the profile reports?
    """
    fitted = target(X, Y)
    labels = (
        fitted.labels_ if hasattr(fitted, "labels_") else fitted.predict(queries(40))
    )
    unanimous = float(np.mean(labels))
    return Evidence(
        unanimous == 1.0 and len(labels) >= 30,
        f"{unanimous:.0%} of {len(labels)} labels are the teachers' class",
    )
