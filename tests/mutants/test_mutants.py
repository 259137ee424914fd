"""The list of mutants fits the code; whether each is noticed is asked by ``make campaign``."""

import pandas as pd
import pytest

from dpnotes.lab.store import published_store
from tests.claims.mutants import applied
from tests.mutants.catalogue import ALL, RESULTS, VERDICTS

EVERY = [*VERDICTS, *RESULTS]


def test_list_is_complete(repository):
    assert len(VERDICTS) >= 20
    assert len(RESULTS) >= 13
    assert len({str(wrong.mutant) for wrong in EVERY}) == len(EVERY)
    for wrong in EVERY:
        assert all((repository / test.partition("::")[0]).is_file() for test in wrong.tests)


@pytest.mark.parametrize("wrong", EVERY, ids=lambda wrong: str(wrong.mutant))
def test_each_mutant_can_be_made(wrong):
    with applied(wrong.mutant):
        pass


def test_kept_rows_are_of_these_mutants_and_all_noticed():
    kept = pd.read_csv(published_store("mutants"), keep_default_na=False)
    assert kept["noticed"].all()
    assert set(kept["fault"]) >= {wrong.fault for mutants in ALL.values() for wrong in mutants}
