"""What is not repaired yet, by its reason: the targets of an attack that still gets past them.

These are strict expected failures: a repair takes its lines away.
"""

PENDING: dict[str, dict[str, list[str]]] = {
    "noise is drawn from random_state": {
        "two_budgets": ["ModelSensitivity"],
        "neighbours_with_one_random_state": [
            "ModelSensitivity",
            "LossPerturbation",
            "DPSGD",
            "NoisySGD",
            "AugmentedSGD",
        ],
        "guessed_random_state": ["ModelSensitivity", "LossPerturbation", "DPSGD", "NoisySGD", "AugmentedSGD"],
        "refits_with_one_random_state": [
            "ModelSensitivity",
            "LossPerturbation",
            "PredictionSensitivity",
            "DPSGD",
            "DPSGD of a network",
            "NoisySGD",
            "AugmentedSGD",
            "Bagging",
            "SubsampleAggregate",
            "FilteredVote",
            "PATE",
            "DPBag",
        ],
        "rewound_generator": ["ModelSensitivity", "LossPerturbation", "DPSGD", "NoisySGD", "AugmentedSGD"],
        "clone_of_a_fitted_estimator": ["ModelSensitivity", "LossPerturbation", "DPSGD", "NoisySGD", "AugmentedSGD"],
        "two_unpickled_copies": ["PredictionSensitivity", "SubsampleAggregate"],
        "batches_by_random_state": ["DPSGD"],
        "separate_processes": ["five estimators"],
    },
    "profiles have no implementation": {
        "seeded_noise_that_claims_to_be_exact": [
            "ModelSensitivity",
            "LossPerturbation",
            "PredictionSensitivity",
            "DPSGD",
            "DPSGD of a network",
            "NoisySGD",
            "AugmentedSGD",
            "Bagging",
            "SubsampleAggregate",
            "FilteredVote",
            "PATE",
            "DPBag",
        ]
    },
    "noise is NumPy's floating-point numbers": {
        "reachable_numbers": ["ModelSensitivity", "NoisySGD", "PredictionSensitivity", "DPSGD"],
        "digits_below_the_public_grid": [
            "ModelSensitivity",
            "LossPerturbation",
            "NoisySGD",
            "AugmentedSGD",
            "ModelSensitivity, pure",
            "PredictionSensitivity",
            "PredictionSensitivity, pure",
        ],
    },
    "parameters are read after the fit": {
        "any_parameter_after_fit": ["FilteredVote", "Bagging"],
        "less_noise_after_fit": ["FilteredVote"],
    },
    "a budget can be assigned to": {
        "budget_raised_by_assignment": ["PredictionSensitivity", "SubsampleAggregate"],
        "answers_raised_by_parameter": ["PredictionSensitivity", "SubsampleAggregate"],
        "votes_raised_by_assignment": ["FilteredVote"],
    },
    "profiles are not frozen": {
        "profile_by_assignment": [
            "ModelSensitivity",
            "LossPerturbation",
            "PredictionSensitivity",
            "DPSGD",
            "DPSGD of a network",
            "NoisySGD",
            "AugmentedSGD",
            "Bagging",
            "SubsampleAggregate",
            "FilteredVote",
            "PATE",
            "DPBag",
        ]
    },
    "a fit that fails late leaves the new profile beside the old student": {"refit_that_fails_late": ["DPBag", "PATE"]},
    "the default accountant is the paper's, which gives no guarantee": {"default_that_guarantees_nothing": ["DPBag"]},
    "adjacencies differ between estimators": {
        "adjacency_of_the_defaults": [
            "ModelSensitivity",
            "LossPerturbation",
            "PredictionSensitivity",
            "DPSGD",
            "DPSGD of a network",
            "NoisySGD",
            "AugmentedSGD",
            "Bagging",
            "SubsampleAggregate",
            "FilteredVote",
            "PATE",
            "DPBag",
        ]
    },
    "profiles do not speak of preparation": {
        "preparation_that_looks_at_all_rows": [
            "ModelSensitivity",
            "LossPerturbation",
            "PredictionSensitivity",
            "DPSGD",
            "DPSGD of a network",
            "NoisySGD",
            "AugmentedSGD",
            "Bagging",
            "SubsampleAggregate",
            "FilteredVote",
            "PATE",
            "DPBag",
        ]
    },
    "noise is read from a parameter after the teachers' fit": {
        "parameter_changed_during_the_fit": ["FilteredVote", "PATE"]
    },
    "noise is scaled by a norm that underflows": {
        "tiny_queries": ["PredictionSensitivity", "PredictionSensitivity, pure"],
        "subnormal_queries": ["PredictionSensitivity", "PredictionSensitivity, pure"],
    },
    "noise is infinite and logits overflow": {
        "huge_queries": ["PredictionSensitivity", "PredictionSensitivity, pure"],
        "bisection_by_overflow": ["PredictionSensitivity", "PredictionSensitivity, pure"],
    },
    "rows that are too long are refused, with their number": {
        "one_long_row": ["ModelSensitivity", "LossPerturbation", "PredictionSensitivity", "NoisySGD", "AugmentedSGD"]
    },
    "labels not among classes are refused by name": {
        "one_unknown_label": [
            "ModelSensitivity",
            "LossPerturbation",
            "PredictionSensitivity",
            "DPSGD",
            "DPSGD of a network",
            "NoisySGD",
            "AugmentedSGD",
            "Bagging",
            "SubsampleAggregate",
            "FilteredVote",
            "PATE",
            "DPBag",
        ]
    },
    "public rows that are private are refused, with their number": {"candidate_among_the_public_rows": ["PATE"]},
    "a minimiser that is not reached is an error": {
        "minimiser_not_reached": ["ModelSensitivity", "LossPerturbation", "PredictionSensitivity"]
    },
    "warnings of private models are shown": {
        "warnings_of_private_models": ["Bagging", "SubsampleAggregate", "FilteredVote", "PATE", "DPBag"]
    },
    "Networks keep the exact training loss": {"attributes_without_noise": ["DPSGD of a network"]},
    "there is no publish()": {
        "published_release": [
            "ModelSensitivity",
            "LossPerturbation",
            "DPSGD",
            "NoisySGD",
            "AugmentedSGD",
            "PATE",
            "DPBag",
        ]
    },
    "labels that are no classes are refused": {
        "one_label_of_another_kind": [
            "ModelSensitivity",
            "LossPerturbation",
            "PredictionSensitivity",
            "DPSGD",
            "DPSGD of a network",
            "NoisySGD",
            "AugmentedSGD",
            "Bagging",
            "SubsampleAggregate",
            "FilteredVote",
            "PATE",
            "DPBag",
        ]
    },
    "scikit-learn's message shows the cell": {
        "cell_that_is_no_number": [
            "ModelSensitivity",
            "LossPerturbation",
            "PredictionSensitivity",
            "DPSGD",
            "DPSGD of a network",
            "NoisySGD",
            "AugmentedSGD",
            "Bagging",
            "SubsampleAggregate",
            "FilteredVote",
            "PATE",
            "DPBag",
        ]
    },
    "long rows are refused, and squares overflow": {
        "huge_float32_record": [
            "ModelSensitivity",
            "LossPerturbation",
            "PredictionSensitivity",
            "NoisySGD",
            "AugmentedSGD",
        ],
        "huge_float64_record": [
            "ModelSensitivity",
            "LossPerturbation",
            "PredictionSensitivity",
            "NoisySGD",
            "AugmentedSGD",
        ],
        "huge_float16_record": [
            "ModelSensitivity",
            "LossPerturbation",
            "PredictionSensitivity",
            "NoisySGD",
            "AugmentedSGD",
        ],
    },
    "squared norms overflow, and training is said to diverge": {
        "huge_float32_record": ["DPSGD", "DPSGD of a network"],
        "huge_float64_record": ["DPSGD", "DPSGD of a network"],
    },
    "the default teachers warn of what has not converged": {
        "huge_float32_record": ["SubsampleAggregate", "FilteredVote", "DPBag"],
        "huge_float64_record": ["SubsampleAggregate", "FilteredVote", "DPBag"],
    },
    "scikit-learn's trees refuse numbers beyond float32": {"huge_float64_record": ["Bagging", "PATE"]},
    "the bound is squared": {"bound_whose_square_underflows": ["ModelSensitivity"]},
    "the standard deviation of the noise underflows to 0, the clipped gradients do not": {
        "noise_that_underflows": ["DPSGD"]
    },
    "rows may be longer than the bound by 1e-6, which the sensitivity does not count": {
        "rows_just_above_the_bound": ["NoisySGD", "AugmentedSGD"]
    },
}
