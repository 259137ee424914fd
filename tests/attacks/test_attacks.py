"""Each attack breaks its broken copy, and none of our estimators."""

import pytest

from tests.attacks.catalogue import FAMILIES, attacks


def against_ours():
    for entry in attacks():
        for name, target in entry.ours.items():
            yield pytest.param(entry, target, id=f"{entry.name}-{name}")


@pytest.mark.parametrize(
    "entry", [pytest.param(entry, id=entry.name) for entry in attacks()]
)
def test_it_succeeds_on_the_broken_copy(entry):
    evidence = entry.run(entry.broken)
    assert evidence.success, evidence.figure


@pytest.mark.parametrize(("entry", "target"), list(against_ours()))
def test_it_fails_on_ours(entry, target):
    evidence = entry.run(target)
    assert not evidence.success, evidence.figure


def test_each_attack_is_described_and_has_targets():
    assert {entry.family for entry in attacks()} == set(FAMILIES)
    assert len({entry.name for entry in attacks()}) == len(attacks()) >= 30
    assert all(
        entry.ours and entry.description.endswith((".", "?")) for entry in attacks()
    )
