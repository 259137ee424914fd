"""Wrong versions of every constant and formula that a claim rests on, and the claims that must notice each.

A mutant replaces one piece of the source of a function, or of a module's constant. The code object of the function is
exchanged in place, so that whoever imported the function gets the wrong one.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType, FunctionType, ModuleType
from typing import Any

from dpnotes.lab.ledger import LEDGER

ACCOUNTING, LAB = "dpnotes.accounting", "dpnotes.lab"


@dataclass(frozen=True)
class Mutant:
    """``old`` becomes ``new`` in ``place``: a module and, unless it is a module's constant, the name of a function."""

    place: str
    old: str
    new: str
    claims: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.place.removeprefix('dpnotes.')}: {self.old} -> {self.new}"

    @property
    def module(self) -> ModuleType:
        return importlib.import_module(self.place.partition(":")[0])


def of(place: str, *pieces: tuple[str, str, tuple[int, ...]]) -> list[Mutant]:
    """Mutants of one place."""
    return [Mutant(place, *piece) for piece in pieces]


MUTANTS: list[Mutant] = [
    # bagging
    *of(
        f"{ACCOUNTING}._sampling:bagging",
        ("power_of_miss(1 / n, drawn)", "power_of_miss(1 / (n + 1), drawn)", (6,)),
        ("power_of_miss(1 / n, drawn)", "power_of_miss(1 / n, subsample - 1)", (6,)),
        ("inclusion = drawn / n", "inclusion = subsample / n", (5,)),
        ("power_of_miss(subsample / n, n_models)", "drawn / n", (5,)),
    ),
    *of(
        f"{ACCOUNTING}._sampling:_bagging_as_published",
        ("-math.log1p(-drawn / (n + 1))", "-math.log1p(-drawn / n)", (3,)),
        ("-math.log1p(-drawn / (n + 1))", "-1.1 * math.log1p(-drawn / (n + 1))", (3,)),
    ),
    *of(
        f"{ACCOUNTING}._kinds:power_of_miss",
        ("times * np.log1p(-probability)", "0.9 * times * np.log1p(-probability)", (5, 6, 7)),
        ("np.log1p(-probability)", "-probability", (5,)),
    ),
    *of(
        f"{ACCOUNTING}._curves:hockey_stick",
        ("mass - factor * q", "mass - q", (1, 16)),
        ("mass - factor * q", "factor * mass - q", (1, 16)),
    ),
    *of(
        f"{LAB}.bagging.sampler:sample_distribution",
        ("n_models * subsample)", "n_models * (subsample - 1))", (2,)),
        ("repeat=n_models", "repeat=1", (1, 2, 4)),
        ("product(range(n), repeat=subsample)", "permutations(range(n), subsample)", (1, 4)),
    ),
    *of(
        f"{LAB}.bagging.claims:_classical_epsilon",
        ("(drawn**2 - drawn) / (2 * sigma**2)", "drawn**2 / (2 * sigma**2)", (7,)),
        ("- math.log(delta) / (alpha - 1)", "- math.log(delta) / alpha", (7,)),
        ("_steps(batch) * float(divergence)", "0.9 * _steps(batch) * float(divergence)", (7,)),
    ),
    *of(
        f"{LAB}.bagging.claims:_limiting_advantage",
        ("math.expm1(sigma**-2)", "sigma**-2 / 2", (7,)),
        ("math.sqrt(8)", "math.sqrt(8.2)", (7,)),
    ),
    *of(
        f"{LAB}.bagging.claims",
        ("RECORDS = 50_000", "RECORDS = 60_000", (7,)),
        ("EPOCHS = 100", "EPOCHS = 110", (7,)),
        ("FALSE_POSITIVE_RATE = 0.001", "FALSE_POSITIVE_RATE = 0.0011", (7,)),
        ("PUBLIC = 1000", "PUBLIC = 900", (8,)),
    ),
    *of(
        f"{LAB}.bagging.orderings:leads",
        ("method(table, other, variant)", "method(table, other)", (37,)),  # the paper's noise for the least
    ),
    *of(
        f"{LAB}.bagging.orderings:further_than_published",
        ("gap - far for", "gap for", (37,)),
        ('"dp_sgd", "least_noise"', '"dp_sgd"', (37,)),
    ),
    *of(f"{LAB}.bagging.means:gaps", ("mean(line, **ends, to=to) for", "mean(line, **ends) for", (37,))),
    *of(
        f"{LAB}.bagging.claims:_spent", ('noise_multiplier=run["sigma"]', 'noise_multiplier=1.01 * run["sigma"]', (37,))
    ),
    *of(
        f"{LAB}.verdicts:above",
        ("HOLDS if low > 0", "HOLDS if high > 0", (37,)),
        ("HOLDS if low > 0", "HOLDS if low > 0.02", (37,)),
    ),
    # votes with Gaussian noise
    *of(
        f"{ACCOUNTING}._votes:_aggregate",
        ("(2 / sigma**2)", "(1 / sigma**2)", (8,)),
        ("(2 / sigma**2)", "(1.98 / sigma**2)", (8,)),
        ("(2 / sigma**2)", "(2.02 / sigma**2)", (8,)),
        ("ConvertedRelease(total / 2,", "ConvertedRelease(total / 1.9,", (8,)),
        ("ConvertedRelease(total / 2,", "ConvertedRelease(total / 2.1,", (8,)),
    ),
    *of(
        f"{ACCOUNTING}._votes:confident_gnmax",
        ("queries / sigma_threshold**2", "2 * queries / sigma_threshold**2", (8,)),
        ("queries / sigma_threshold**2", "answers / sigma_threshold**2", (8,)),
    ),
    *of(
        f"{ACCOUNTING}._votes:chunk_filter",
        ("(2 if one_hot else 4)", "(1.9 if one_hot else 4)", (29,)),
        ("(2 if one_hot else 4)", "(4 if one_hot else 4)", (29,)),
    ),
    # Gaussian noise
    *of(
        f"{ACCOUNTING}._calibrate:_classical_mu",
        ("1.25 / delta", "1.20 / delta", (36,)),
        ("1.25 / delta", "1.30 / delta", (36,)),
        ("np.sqrt(2 *", "np.sqrt(2.1 *", (16, 36)),
    ),
    *of(
        f"{ACCOUNTING}._curves:log_delta_of",
        ("epsilon / mu - mu / 2", "epsilon / mu", (11, 12, 18)),
        ("mills(low) - mills(low + mu)", "mills(low)", (11, 18)),
        ("np.log(2 * np.pi) / 2", "np.log(2 * np.pi)", (11, 12, 18)),
    ),
    *of(
        f"{ACCOUNTING}._curves:largest_mu",
        ("mu * (1 - PRIVATE_MARGIN)", "mu * 1.001", (11, 12, 18)),
        ("mu * (1 - PRIVATE_MARGIN)", "mu * 0.999", (11, 12, 18)),
    ),
    *of(
        f"{ACCOUNTING}._basic:gaussian",
        ("GaussianRelease(mu)", "GaussianRelease(mu / 1.01)", (12, 33)),
        ("GaussianRelease(mu)", "GaussianRelease(1.01 * mu)", (12, 33)),
    ),
    *of(
        f"{LAB}.private_prediction.claims.output:_algorithm_two",
        ("math.sqrt(epsilon * (u + 2))", "math.sqrt(epsilon * (u + 1))", (11, 12)),
        ("math.sqrt(1 + u / 2)", "math.sqrt(1 + u)", (11, 12)),
    ),
    # the minimiser's sensitivity and noise of random norm
    *of(
        f"{ACCOUNTING}._minimisers:minimiser_sensitivity",
        ("records = 1 if alone else 2", "records = 2", (15,)),
        ("records = 1 if alone else 2", "records = 1", (9, 10, 15, 17)),
        ("2 * tolerance", "tolerance", (9,)),
        ("2 * tolerance", "2.1 * tolerance", (9,)),
    ),
    *of(
        f"{ACCOUNTING}._minimisers:norm_noise_rate",
        ("return epsilon / (", "return epsilon / (1.5 * ", (10, 17)),
        ("return epsilon / (", "return epsilon / (0.99 * ", (10, 17)),
        ('check.at_least_one("answers", answers) * ', "", (17,)),
    ),
    *of(
        f"{ACCOUNTING}._minimisers:logistic_constants",
        ("LIMIT * math.sqrt(square)", "1.4 * math.sqrt(square)", (9, 21)),
        ("square / 2", "square / 4", (21,)),
        ("n_classes - 1, (", "n_classes, (", (21,)),
        ("(1 - 1 / n_classes)", "(1 + 0 / n_classes)", (21,)),
    ),
    *of(
        f"{ACCOUNTING}._minimisers:prediction_sensitivity_sigma",
        ("math.sqrt(answers)", "answers", (18,)),
        ("delta / answers", "delta", (18,)),
        ("epsilon / answers", "1.1 * epsilon / answers", (18,)),
    ),
    *of(
        f"{ACCOUNTING}._minimisers:advanced_sigma",
        ("np.sqrt(2 / answers)", "np.sqrt(1 / answers)", (18,)),
        ("np.sqrt(slack + epsilon) + np.sqrt(slack)", "2 * np.sqrt(slack)", (18,)),
    ),
    # loss perturbation
    *of(
        f"{ACCOUNTING}._minimisers:objective_perturbation",
        ("n_classes * norm**2 / epsilon if", "n_classes * norm**2 / (2 * epsilon) if", (13,)),
        ("n_classes * math.expm1", "math.expm1", (13,)),
        ("(2 * (n_classes - 1))", "(2 * n_classes)", (13,)),
        ("(2 * (1 + exchanged) * norm)", "(2 * norm)", (15,)),
    ),
    *of(
        f"{ACCOUNTING}._minimisers:_half_each",
        ("rate=epsilon / (2 * shift)", "rate=epsilon / (1.5 * shift)", (13,)),
        ("rate=epsilon / (2 * shift)", "rate=epsilon / (2.1 * shift)", (13,)),
        ("8 * math.log(2 / delta)", "8 * math.log(1 / delta)", (14,)),
        ("4 * epsilon)", "2 * epsilon)", (14,)),
    ),
    *of(
        f"{ACCOUNTING}._minimisers:gradient_quantile",
        ("delta / (n_classes - 1)", "delta / n_classes", (14,)),
        ("delta / (n_classes - 1)", "delta", (14,)),
        ("2 * math.log(2 / delta)", "2 * math.log(1 / delta)", (14,)),
    ),
    *of(
        f"{ACCOUNTING}._minimisers:volume_loss",
        ("(n_classes - 1) * math.log1p", "n_classes * math.log1p", (14,)),
        ("norm**2 / (n_classes * regulariser)", "norm**2 / regulariser", (14,)),
    ),
    *of(
        f"{ACCOUNTING}._minimisers:loss_perturbation",
        ("records * LIMIT * norm / sigma", "records * norm / sigma", (14,)),
        ("records * LIMIT * norm / sigma", "1.01 * records * LIMIT * norm / sigma", (14,)),
    ),
    *of(
        f"{LAB}.private_prediction.claims.training:_by_vertices",
        ("epsilon / n_classes**2", "epsilon / n_classes", (14,)),
        ("(n_classes - 1) * noise", "noise", (14,)),
    ),
    # soft votes
    *of(
        f"{ACCOUNTING}._votes:soft_vote",
        ("bounded_range(2 * beta,", "bounded_range(1.8 * beta,", (20,)),
        ("bounded_range(2 * beta,", "bounded_range(2.05 * beta,", (20,)),
    ),
    *of(
        f"{ACCOUNTING}._votes:soft_vote_beta",
        ("epsilon / (2 * answers)", "epsilon / (3 * answers)", (19,)),
        ("basic = epsilon / answers", "basic = 0.9 * epsilon / answers", (19, 20)),
        ("math.sqrt(2 / answers)", "math.sqrt(2.1 / answers)", (20,)),
        ("math.sqrt(2 / answers)", "math.sqrt(1.9 / answers)", (20,)),
    ),
    *of(
        f"{LAB}.exact_votes:soft_vote_pure_level",
        ("return beta + float(", "return float(", (19,)),
        ("math.log(n_classes - 1)", "math.log(n_classes)", (19,)),
        ("(n_models - 1)", "n_models", (19,)),
    ),
    *of(
        f"{LAB}.exact_votes:soft_vote_exact_delta",
        ("log_odds + 2 * beta", "log_odds + beta", (20,)),
        ("log_odds + 2 * beta", "log_odds + 2.01 * beta", (20,)),
    ),
    *of(
        f"{LAB}.exact_votes:bounded_range_delta",
        ("np.expm1(-width)", "-width", (20,)),
        ("/ (answers + 1)", "/ answers", (20,)),
    ),
    *of(
        f"{ACCOUNTING}._kinds:BoundedRangeRelease.renyi",
        ("self.width**2 / 8", "self.width**2 / 16", (20, 25, 26)),
        ("self.width**2 / 8", "self.width**2 / 4", (20, 25, 26)),
    ),
    # noisy votes
    *of(
        f"{ACCOUNTING}._votes:noisy_vote",
        ("bounded_range(2 * noise,", "bounded_range(1.9 * noise,", (22, 25)),
        ("bounded_range(2 * noise,", "bounded_range(2.1 * noise,", (22, 25, 26, 27)),
        ("ConvertedRelease(2 * noise**2,", "ConvertedRelease(2.01 * noise**2,", (25,)),
        ("ConvertedRelease(2 * noise**2,", "ConvertedRelease(1.99 * noise**2,", (25,)),
    ),
    *of(
        f"{ACCOUNTING}.papers:personalised_moments",
        ("2 * noise**2", "noise**2", (23, 24, 25)),
        ("2 * noise**2", "2.02 * noise**2", (23, 25)),
        ("fraction**2", "fraction", (24, 29)),
        ("(orders + 1)", "orders", (23, 25)),
    ),
    *of(
        f"{ACCOUNTING}.papers:personalised_answers",
        ("math.log(delta)", "0.99 * math.log(delta)", (25,)),
        ("math.ceil(float(reached))", "math.floor(float(reached))", (25,)),
    ),
    *of(
        f"{LAB}.exact_votes:_noisy_log_odds",
        ("(2 + lead) / 4", "(1 + lead) / 4", (22, 26)),
        ("_margins(n_models) + 2", "_margins(n_models) + 1", (22, 26, 27)),
        ("- lead", "- 1.05 * lead", (22, 26)),
    ),
    *of(
        f"{LAB}.dpbag.votes:answer_distribution",
        ("np.exp(-np.abs(above)) / 2", "np.exp(-np.abs(above)) / 2.02", (22, 23)),
        ("(at - counts[:, None]) / scale", "(at - counts[:, None]) / (1.02 * scale)", (22, 23)),
    ),
    *of(
        f"{LAB}.dpbag.votes:other_answer",
        ("(2 + noise * gap)", "(1 + noise * gap)", (28,)),
        ("math.exp(noise * gap)", "math.exp(0.95 * noise * gap)", (28,)),
    ),
    *of(
        f"{LAB}.dpbag.votes:pate_moments",
        ("level = 2 * noise * m", "level = 1.9 * noise * m", (28,)),
        ("level = 2 * noise * m", "level = 2.1 * noise * m", (28,)),
    ),
    *of(
        f"{LAB}.dpbag.partitions:balanced_epsilon",
        ("(size + 1) / (n * size + 1)", "size / (n * size + 1)", (27,)),
    ),
    *of(
        f"{LAB}.dpbag.partitions:fraction",
        ("1 - min(", "1 - max(", (23, 24, 29)),
    ),
    *of(
        f"{LAB}.dpbag.claims",
        ("DELTA = 1e-5", "DELTA = 1.1e-5", (25, 26)),
    ),
    # stochastic gradient descent
    *of(
        f"{ACCOUNTING}.papers",
        ('GRADIENTS = {"replace-one": 2, "zero-out": 1}', 'GRADIENTS = {"replace-one": 1, "zero-out": 1}', (30,)),
        ('GRADIENTS = {"replace-one": 2, "zero-out": 1}', 'GRADIENTS = {"replace-one": 2.1, "zero-out": 1}', (30,)),
    ),
    *of(
        f"{ACCOUNTING}.papers:sgd_sensitivity",
        ("math.ceil(epochs)", "epochs", (30,)),
        ("math.ceil(epochs)", "(math.ceil(epochs) + 1)", (30,)),
        ("learning_rate * visits", "visits", (30,)),
    ),
    *of(
        f"{ACCOUNTING}.papers:augmenting_sigma",
        ("total - intrinsic_sigma)", "total)", (34, 36)),
        ("sensitivity=sensitivity, analysis", "sensitivity=1.001 * sensitivity, analysis", (34,)),
    ),
    *of(
        f"{ACCOUNTING}.papers:intrinsic_sgd",
        ('", sensitivity / sigma', '", sensitivity / (1.01 * sigma)', (32,)),
    ),
    *of(
        f"{LAB}.intrinsic_sgd.printed:intrinsic_epsilon",
        ("return math.sqrt(2 * math.log(1.25 / delta))", "return math.sqrt(2 * math.log(1.25) / delta)", (32, 35)),
        ("return math.sqrt(2 *", "return math.sqrt(2.1 *", (32, 35)),
    ),
    *of(
        f"{LAB}.intrinsic_sgd.printed",
        ("LIPSCHITZ = 2**0.5", "LIPSCHITZ = 1.0", (30, 32)),
        ("HALF_DIGIT = 5e-4", "HALF_DIGIT = 5e-5", (32,)),
    ),
    *of(
        f"{LAB}.intrinsic_sgd.literal_sgd:end_weight",
        ("weight -= learning_rate * mean", "weight -= 2 * learning_rate * mean", (30, 31)),
    ),
    *of(
        f"{LAB}.intrinsic_sgd.literal_sgd:logistic_sgd",
        ("learning_rate / batch.shape[-1]", "1.02 * learning_rate / batch.shape[-1]", (30, 33)),
        ("learning_rate / batch.shape[-1]", "0.98 * learning_rate / batch.shape[-1]", (30, 33)),
    ),
    *of(
        f"{LAB}.intrinsic_sgd.claims.noise:gaussian_delta",
        ("mu / 2, -mu / 2", "mu / 2, -mu", (32, 34)),
    ),
]


@contextmanager
def applied(mutant: Mutant) -> Iterator[None]:
    """The package with the wrong piece in it.

    Raises
    ------
    ValueError
        If the piece is not in the place once: the list must follow the code.
    """
    restored: list[tuple[Any, str, Any]] = []
    module, name = mutant.module, mutant.place.partition(":")[2]
    if name:
        function = _function(module, name)
        restored.append((function, "__code__", function.__code__))
        function.__code__ = _mutated(module, function, mutant)
    else:
        _once(inspect.getsource(module), f"\n{mutant.old}", mutant)
        constant = mutant.old.partition(" =")[0]
        changed = dict(vars(module))
        exec(mutant.new, changed)
        for other in [m for n, m in sys.modules.items() if n.startswith("dpnotes") and constant in vars(m)]:
            if vars(other)[constant] is vars(module)[constant]:
                restored.append((other, constant, vars(other)[constant]))
        for other, _, _ in restored:
            setattr(other, constant, changed[constant])
    try:
        _forget()
        yield
    finally:
        for target, attribute, value in restored:
            setattr(target, attribute, value)
        _forget()


def unnoticed(mutant: Mutant) -> list[int]:
    """The claims that must notice the mutant, and do not; an error is noticed."""
    with applied(mutant):
        return [number for number in mutant.claims if _supports(number)]


def _supports(number: int) -> bool:
    try:
        return LEDGER[number - 1].evidence().supports
    except Exception:
        return False


def _function(module: ModuleType, name: str) -> FunctionType:
    found: Any = module
    for part in name.split("."):
        found = inspect.getattr_static(found, part)
        found = next((getattr(found, name) for name in ("__func__", "fget", "func") if hasattr(found, name)), found)
    found = inspect.unwrap(found)
    assert isinstance(found, FunctionType), name
    return found


def _mutated(module: ModuleType, function: FunctionType, mutant: Mutant) -> CodeType:
    lines, first = inspect.getsourcelines(function)
    _once("".join(lines), mutant.old, mutant)
    source = inspect.getsource(module).splitlines(keepends=True)
    source[first - 1 : first - 1 + len(lines)] = ["".join(lines).replace(mutant.old, mutant.new)]
    pending = [compile("".join(source), module.__file__ or "", "exec")]
    while pending:
        code = pending.pop()
        if code.co_qualname == function.__code__.co_qualname and code.co_firstlineno == first:
            return code
        pending += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    raise ValueError(f"no function {mutant.place}")


def _once(text: str, piece: str, mutant: Mutant) -> None:
    if text.count(piece) != 1:
        raise ValueError(f"{piece!r} must be in {mutant.place} once, is there {text.count(piece)} times")


def _forget() -> None:
    """Empty all caches of the package."""
    for name, module in list(sys.modules.items()):
        if name.startswith("dpnotes"):
            for value in list(vars(module).values()):
                if hasattr(value, "cache_clear"):
                    value.cache_clear()
