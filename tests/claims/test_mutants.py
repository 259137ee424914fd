"""The list of mutants fits the code, and a slice of it is noticed; all of it is run by ``make campaign``."""

import pytest

from dpnotes.lab.ledger import LEDGER
from tests.claims.mutants import MUTANTS, Mutant, applied, unnoticed

CHEAP = {3, 9, 10, 12, 15, 17, 18, 19, 22}  # claims whose evidence takes hundredths of a second
ONCE_PASSED = [  # four mutations that every related claim let pass when findings had one bound
    "accounting._minimisers:norm_noise_rate: return epsilon / ( -> return epsilon / (1.5 * ",
    "accounting._votes:soft_vote: bounded_range(2 * beta, -> bounded_range(1.8 * beta,",
    "accounting._calibrate:_classical_mu: 1.25 / delta -> 1.20 / delta",
    "accounting._minimisers:minimiser_sensitivity: records = 1 if alone else 2 -> records = 2",
]


def test_list_is_complete():
    assert len(MUTANTS) >= 60
    assert len({str(mutant) for mutant in MUTANTS}) == len(MUTANTS)
    assert set(ONCE_PASSED) <= {str(mutant) for mutant in MUTANTS}
    mutated = {number for mutant in MUTANTS for number in mutant.claims}
    assert mutated == {claim.number for claim in LEDGER}


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_each_mutant_can_be_made(mutant):
    assert mutant.claims
    with applied(mutant):
        pass


@pytest.mark.parametrize("mutant", [m for m in MUTANTS if set(m.claims) <= CHEAP or str(m) in ONCE_PASSED], ids=str)
def test_it_is_noticed(mutant):
    assert unnoticed(mutant) == []


def test_nothing_is_left_of_a_mutant():
    mutant = next(m for m in MUTANTS if m.claims == (19,))
    assert unnoticed(mutant) == []
    assert LEDGER[18].evidence().supports


def test_a_list_that_no_longer_fits_the_code_is_refused():
    with (
        pytest.raises(ValueError, match=r"'no such piece' must be in .* once, is there 0 times"),
        applied(Mutant(MUTANTS[0].place, "no such piece", "", (1,))),
    ):
        pass
