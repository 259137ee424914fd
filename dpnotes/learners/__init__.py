"""Training of many models on subsets of one data set.

Only :func:`fit_dp_sgd_linear` and :func:`fit_dp_sgd_network` clip gradients and add
noise. Their weights are private only if the seed and the source of the noise are
secret. On their own, the other learners give no privacy.
"""

from dpnotes import _extras

_extras.require("learn", part="dpnotes.learners")

from dpnotes.learners._architectures import (
    convolutional_network as convolutional_network,
)
from dpnotes.learners._architectures import (
    multilayer_perceptron as multilayer_perceptron,
)
from dpnotes.learners._architectures import residual_network as residual_network
from dpnotes.learners._architectures import vgg16 as vgg16
from dpnotes.learners._boosted_trees import BoostedTrees as BoostedTrees
from dpnotes.learners._boosted_trees import fit_boosted_trees as fit_boosted_trees
from dpnotes.learners._classifiers import (
    BoostedTreesClassifier as BoostedTreesClassifier,
)
from dpnotes.learners._classifiers import DecisionClassifier as DecisionClassifier
from dpnotes.learners._classifiers import LinearClassifier as LinearClassifier
from dpnotes.learners._classifiers import LogisticClassifier as LogisticClassifier
from dpnotes.learners._classifiers import LogitClassifier as LogitClassifier
from dpnotes.learners._classifiers import NetworkClassifier as NetworkClassifier
from dpnotes.learners._classifiers import decision_values as decision_values
from dpnotes.learners._descent import Checkpoint as Checkpoint
from dpnotes.learners._descent import epoch_factors as epoch_factors
from dpnotes.learners._devices import device_name as device_name
from dpnotes.learners._devices import one_thread as one_thread
from dpnotes.learners._dp_sgd import dp_sgd_batches as dp_sgd_batches
from dpnotes.learners._dp_sgd import fit_dp_sgd_linear as fit_dp_sgd_linear
from dpnotes.learners._dp_sgd import fit_dp_sgd_network as fit_dp_sgd_network
from dpnotes.learners._logistic import LogisticModels as LogisticModels
from dpnotes.learners._logistic import (
    fit_multinomial_logistic as fit_multinomial_logistic,
)
from dpnotes.learners._logistic import (
    fit_perturbed_logistic as fit_perturbed_logistic,
)
from dpnotes.learners._network_training import choose_engine as choose_engine
from dpnotes.learners._networks import Networks as Networks
from dpnotes.learners._networks import fit_networks as fit_networks
from dpnotes.learners._newton import fit_binary_logistic as fit_binary_logistic
from dpnotes.learners._sgd import Architecture as Architecture
from dpnotes.learners._sgd import SGDRuns as SGDRuns
from dpnotes.learners._sgd import fit_sgd as fit_sgd
from dpnotes.learners._touched import TouchedVotes as TouchedVotes
