"""What an experiment of the book must have, whatever its chapter."""

from importlib import import_module

import pytest

from dpnotes.lab.experiments import EXPERIMENTS

CHAPTERS = ("bagging", "dpbag", "intrinsic_sgd", "private_prediction")


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_has_a_name_of_its_own_that_begins_with_its_chapter(name):
    function = EXPERIMENTS[name].function
    given = getattr(function, "experiment_name", None)  # without it the rows would depend on the function's address
    assert given is not None, f"{function.__module__}.{function.__name__} has no @experiment(name)"
    chapter, dot, own = given.partition(".")
    assert dot
    assert own.isidentifier()
    assert function.__module__.startswith(f"dpnotes.lab.{chapter}.")
    assert name.startswith(f"{chapter}_")


def test_no_two_experiments_share_a_name():
    functions = {id(e.function): e.function for e in EXPERIMENTS.values()}.values()
    given = [function.experiment_name for function in functions]
    assert len(set(given)) == len(given), sorted(name for name in given if given.count(name) > 1)
    chapters = [import_module(f"dpnotes.lab.{chapter}.experiments") for chapter in CHAPTERS]
    stores = [e.name for chapter in chapters for e in chapter.EXPERIMENTS]
    assert len(set(stores)) == len(stores) == len(EXPERIMENTS)  # a store that is there twice would hide another
