"""Training many models on subsets of one data set. No privacy in here: a learner fits what it is told."""

from dpnotes.learners._architectures import multilayer_perceptron, residual_network, vgg16
from dpnotes.learners._boosted_trees import fit_boosted_trees
from dpnotes.learners._boosted_trees_classifier import BoostedTreesClassifier
from dpnotes.learners._boosted_trees_models import BoostedTrees
from dpnotes.learners._classifier import NetworkClassifier
from dpnotes.learners._convolution import convolutional_network
from dpnotes.learners._dp_sgd_linear import fit_dp_sgd_linear
from dpnotes.learners._dp_sgd_network import fit_dp_sgd_network
from dpnotes.learners._logistic_binary import fit_binary_logistic
from dpnotes.learners._logistic_classifier import LogisticClassifier
from dpnotes.learners._logistic_models import LogisticModels
from dpnotes.learners._logistic_multinomial import fit_multinomial_logistic
from dpnotes.learners._logistic_perturbed import fit_perturbed_logistic
from dpnotes.learners._networks import Networks, device_name, fit_networks
from dpnotes.learners._sgd import SGDRuns, fit_sgd
from dpnotes.learners._sgd_architecture import Architecture
from dpnotes.learners._sgd_neighbours import SGDNeighbours, fit_sgd_neighbours

__all__ = [
    "Architecture",
    "BoostedTrees",
    "BoostedTreesClassifier",
    "LogisticClassifier",
    "LogisticModels",
    "NetworkClassifier",
    "Networks",
    "SGDNeighbours",
    "SGDRuns",
    "convolutional_network",
    "device_name",
    "fit_binary_logistic",
    "fit_boosted_trees",
    "fit_dp_sgd_linear",
    "fit_dp_sgd_network",
    "fit_multinomial_logistic",
    "fit_networks",
    "fit_perturbed_logistic",
    "fit_sgd",
    "fit_sgd_neighbours",
    "multilayer_perceptron",
    "residual_network",
    "vgg16",
]
