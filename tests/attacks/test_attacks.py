"""Each attack breaks its broken copy, and none of our estimators."""

import pytest

from tests.attacks.catalogue import FAMILIES, attacks
from tests.attacks.pending import PENDING


def against_ours():
    for entry in attacks():
        for name, target in entry.ours.items():
            reason = entry.pending.get(name)
            marks = [pytest.mark.xfail(strict=True, reason=reason)] if reason else []
            yield pytest.param(entry, target, id=f"{entry.name}-{name}", marks=marks)


@pytest.mark.parametrize("entry", [pytest.param(entry, id=entry.name) for entry in attacks()])
def test_it_succeeds_on_the_broken_copy(entry):
    evidence = entry.run(entry.broken)
    assert evidence.success, evidence.figure


@pytest.mark.parametrize(("entry", "target"), list(against_ours()))
def test_it_fails_on_ours(entry, target):
    evidence = entry.run(target)
    assert not evidence.success, evidence.figure


def test_what_is_pending_names_attacks_and_targets():
    known = {(entry.name, target) for entry in attacks() for target in entry.ours}
    assert {(attack, target) for names in PENDING.values() for attack in names for target in names[attack]} <= known


def test_each_attack_is_described_and_has_targets():
    assert {entry.family for entry in attacks()} == set(FAMILIES)
    assert len({entry.name for entry in attacks()}) == len(attacks()) >= 30
    assert all(entry.ours and entry.description.endswith((".", "?")) for entry in attacks())
