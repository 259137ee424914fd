from ._architectures import (
    convolutional_network as convolutional_network,
    multilayer_perceptron as multilayer_perceptron,
    residual_network as residual_network,
    vgg16 as vgg16,
)
from ._boosted_trees import (
    BoostedTrees as BoostedTrees,
    fit_boosted_trees as fit_boosted_trees,
)
from ._classifiers import (
    BoostedTreesClassifier as BoostedTreesClassifier,
    LogisticClassifier as LogisticClassifier,
    ManyClassifier as ManyClassifier,
    NetworkClassifier as NetworkClassifier,
)
from ._descent import Checkpoint as Checkpoint, epoch_factors as epoch_factors
from ._devices import device_name as device_name
from ._dp_sgd import (
    dp_sgd_batches as dp_sgd_batches,
    fit_dp_sgd_linear as fit_dp_sgd_linear,
    fit_dp_sgd_network as fit_dp_sgd_network,
)
from ._logistic import (
    LogisticModels as LogisticModels,
    fit_multinomial_logistic as fit_multinomial_logistic,
    fit_perturbed_logistic as fit_perturbed_logistic,
)
from ._network_training import choose_engine as choose_engine
from ._networks import Networks as Networks, fit_networks as fit_networks
from ._newton import fit_binary_logistic as fit_binary_logistic
from ._sgd import Architecture as Architecture, SGDRuns as SGDRuns, fit_sgd as fit_sgd
from ._threads import one_thread as one_thread
from ._touched import TouchedVotes as TouchedVotes
