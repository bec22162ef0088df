"""Creates the leaderboards of the smoke competitions: many different pipelines compete, and grade.py ranks them.

    python tools/smoke_leaderboards.py                       # all three; rewrites their competition.yaml
    python tools/smoke_leaderboards.py --check smoke-digits  # only checks that the committed figures are reproducible
    python tools/smoke_leaderboards.py --show smoke-digits   # lists every team's score, too

A team is a scikit-learn pipeline. It is fitted on the public training part and predicts the held-out part once.
Hyperparameters are tuned by cross-validation on the training part. This file lists the teams, from guesses to
ensembles. Do not change the list after seeing the scores. Everything is seeded, but scores may differ slightly between
versions of scikit-learn and processors, hence the tolerance of ``--check``.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit
from sklearn import cluster, dummy, ensemble, feature_selection, gaussian_process, kernel_approximation, naive_bayes
from sklearn import discriminant_analysis as da
from sklearn import linear_model as lm
from sklearn import neighbors as nn
from sklearn import preprocessing as pp
from sklearn.base import BaseEstimator
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.cross_decomposition import PLSRegression
from sklearn.decomposition import PCA, FastICA
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC, SVR, LinearSVC, LinearSVR, NuSVR
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier, ExtraTreeRegressor
from threadpoolctl import threadpool_limits

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from pytest_mlebench.catalog import Competition, Leaderboard  # noqa: E402
from pytest_mlebench.data.dataset import Dataset  # noqa: E402
from pytest_mlebench.data.store import DataStore  # noqa: E402
from pytest_mlebench.errors import InvalidSubmission  # noqa: E402
from pytest_mlebench.grading.scorer import Scorer  # noqa: E402

TARGETS = {"smoke-digits": "digit", "smoke-breast-cancer": "malignant", "smoke-diabetes": "progression"}
SOURCE = (
    "a population of scikit-learn pipelines, fitted on the training part and ranked on the held-out part "
    "by tools/smoke_leaderboards.py"
)
TOLERANCE = 0.01
"""Allowed difference of a threshold in ``--check``, relative to the distance between the worst and best scores."""

Team = tuple[str, BaseEstimator]
SEED = 0


def standard(model: BaseEstimator) -> BaseEstimator:
    return make_pipeline(pp.StandardScaler(), model)


def minmax(model: BaseEstimator) -> BaseEstimator:
    return make_pipeline(pp.MinMaxScaler(), model)


def first_columns(count: int, model: BaseEstimator) -> BaseEstimator:
    return make_pipeline(make_column_transformer(("passthrough", slice(0, count))), model)


def classifiers() -> Iterator[Team]:
    """The teams of a classification competition."""
    # Guesses.
    yield "most frequent class", dummy.DummyClassifier(strategy="most_frequent")
    yield "class shares", dummy.DummyClassifier(strategy="prior")
    yield "drawn by class shares", dummy.DummyClassifier(strategy="stratified", random_state=SEED)
    yield "drawn evenly", dummy.DummyClassifier(strategy="uniform", random_state=SEED)
    # Neighbours.
    for k, scale in product((1, 3, 5, 15, 75), (None, standard)):
        model = nn.KNeighborsClassifier(k)
        yield (f"{k} neighbours", model) if scale is None else (f"{k} neighbours, scaled", scale(model))
    yield "5 weighted neighbours", standard(nn.KNeighborsClassifier(5, weights="distance"))
    yield "9 weighted neighbours, city block", standard(nn.KNeighborsClassifier(9, weights="distance", p=1))
    yield "nearest centroid", standard(nn.NearestCentroid())
    yield "nearest shrunken centroid", standard(nn.NearestCentroid(shrink_threshold=1.0))
    # Naive Bayes.
    for smoothing in (1e-9, 1e-3, 0.1):
        yield f"Gaussian Bayes {smoothing:g}", standard(naive_bayes.GaussianNB(var_smoothing=smoothing))
    yield "Gaussian Bayes, normalised", make_pipeline(pp.PowerTransformer(), naive_bayes.GaussianNB())
    yield "Bernoulli Bayes", standard(naive_bayes.BernoulliNB())
    yield "multinomial Bayes", minmax(naive_bayes.MultinomialNB())
    yield "complement Bayes", minmax(naive_bayes.ComplementNB())
    # Discriminants.
    yield "linear discriminant", da.LinearDiscriminantAnalysis()
    yield "shrunken linear discriminant", da.LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
    for shrinkage in (0.01, 0.1, 0.5, 0.9):
        yield f"quadratic discriminant {shrinkage:g}", standard(da.QuadraticDiscriminantAnalysis(reg_param=shrinkage))
    # Linear models.
    for c, (name, scale) in product(10.0 ** np.arange(-5, 4), (("standardised", standard), ("min-max", minmax))):
        yield f"logistic C={c:g}, {name}", scale(lm.LogisticRegression(C=c, max_iter=300))
    yield "logistic, raw, stopped early", lm.LogisticRegression(max_iter=5)
    for count in (2, 5, 10, 20):
        yield f"logistic of {count} components", standard(make_pipeline(PCA(count), lm.LogisticRegression()))
    yield (
        "logistic of independent components",
        standard(make_pipeline(FastICA(15, random_state=SEED, max_iter=500), lm.LogisticRegression())),
    )
    for count in (1, 3, 10):
        best = feature_selection.SelectKBest(k=count)
        yield f"logistic of the best {count}", standard(make_pipeline(best, lm.LogisticRegression()))
    yield (
        "logistic of bins",
        make_pipeline(pp.KBinsDiscretizer(5, encode="onehot", strategy="uniform"), lm.LogisticRegression(max_iter=300)),
    )
    yield (
        "logistic of distances to clusters",
        standard(make_pipeline(cluster.KMeans(30, random_state=SEED, n_init=3), lm.LogisticRegression(max_iter=300))),
    )
    for alpha in (0.1, 10.0, 1000.0):
        yield f"ridge {alpha:g}", standard(lm.RidgeClassifier(alpha=alpha))
    for loss, alpha in product(("hinge", "log_loss", "modified_huber"), (1e-4, 1e-1)):
        model = lm.SGDClassifier(loss=loss, alpha=alpha, random_state=SEED)
        yield f"gradient descent {loss} {alpha:g}", standard(model)
    yield "gradient descent, raw", lm.SGDClassifier(max_iter=5, random_state=SEED)
    yield "perceptron", standard(lm.Perceptron(random_state=SEED))
    # Support vector machines.
    for c in (0.001, 0.01, 0.1, 1.0, 10.0, 100.0):
        yield f"SVM C={c:g}", standard(SVC(C=c))
    for c in (0.1, 10.0):
        yield f"SVM C={c:g}, raw", SVC(C=c)
    for gamma in (0.001, 0.1, 1.0):
        yield f"SVM gamma={gamma:g}", standard(SVC(gamma=gamma))
    for degree in (2, 3, 5):
        yield f"SVM degree {degree}", minmax(SVC(kernel="poly", degree=degree))
    yield "SVM, sigmoid", standard(SVC(kernel="sigmoid"))
    for c in (0.001, 0.1, 10.0):
        yield f"linear SVM C={c:g}", standard(LinearSVC(C=c, random_state=SEED))
    yield "SVM of 10 components", standard(make_pipeline(PCA(10), SVC(C=5.0)))
    for count in (20, 200):
        kernel = kernel_approximation.Nystroem(n_components=count, gamma=0.02, random_state=SEED)
        yield f"Nystroem {count}", standard(make_pipeline(kernel, lm.LogisticRegression(C=10)))
    random_kernel = kernel_approximation.RBFSampler(n_components=100, gamma=0.02, random_state=SEED)
    yield "random features", standard(make_pipeline(random_kernel, lm.LogisticRegression()))
    yield (
        "Gaussian process",
        standard(
            gaussian_process.GaussianProcessClassifier(
                gaussian_process.kernels.RBF(8.0), optimizer=None, random_state=SEED
            )
        ),
    )
    # Trees.
    for depth in (1, 2, 3, 5, 8, None):
        yield f"tree of depth {depth}", DecisionTreeClassifier(max_depth=depth, random_state=SEED)
    for leaf in (5, 20, 100):
        yield f"tree with leaves of {leaf}", DecisionTreeClassifier(min_samples_leaf=leaf, random_state=SEED)
    yield "random tree", ExtraTreeClassifier(random_state=SEED)
    for count in (5, 10):
        tree = DecisionTreeClassifier(random_state=SEED)
        yield f"tree of the first {count} columns", first_columns(count, tree)
    # Forests.
    forest = partial(ensemble.RandomForestClassifier, random_state=SEED)
    extra = partial(ensemble.ExtraTreesClassifier, random_state=SEED)
    for count in (3, 10, 30, 100, 300):
        yield f"forest of {count}", forest(count)
    for depth in (1, 2, 4):
        yield f"forest of depth {depth}", forest(100, max_depth=depth)
    for share in (0.1, 0.5, 1.0):
        yield f"forest of {share:g} of the columns", forest(100, max_features=share)
    yield "forest with leaves of 10", forest(100, min_samples_leaf=10)
    yield "forest of the first 10 columns", first_columns(10, forest(100))
    for count in (10, 100, 300):
        yield f"extra trees {count}", extra(count)
    yield "extra trees with leaves of 5", extra(100, min_samples_leaf=5)
    yield "bagged trees", ensemble.BaggingClassifier(n_estimators=30, random_state=SEED)
    yield (
        "bagged neighbours",
        standard(ensemble.BaggingClassifier(nn.KNeighborsClassifier(), 10, max_features=0.5, random_state=SEED)),
    )
    # Boosting.
    for count in (10, 50, 200):
        yield f"AdaBoost {count}", ensemble.AdaBoostClassifier(n_estimators=count, random_state=SEED)
    yield (
        "AdaBoost of deeper trees",
        ensemble.AdaBoostClassifier(
            DecisionTreeClassifier(max_depth=4, random_state=SEED), n_estimators=50, random_state=SEED
        ),
    )
    for rate, count in ((0.01, 30), (0.1, 10), (0.1, 50), (1.0, 30)):
        yield (
            f"gradient boosting {count} × {rate:g}",
            ensemble.GradientBoostingClassifier(
                n_estimators=count, learning_rate=rate, max_features="sqrt", random_state=SEED
            ),
        )
    for rate, count in ((0.02, 20), (0.1, 20), (0.1, 60), (0.5, 20)):
        yield (
            f"histogram boosting {count} × {rate:g}",
            ensemble.HistGradientBoostingClassifier(
                max_iter=count, learning_rate=rate, max_leaf_nodes=15, random_state=SEED
            ),
        )
    # Neural networks.
    for layers in ((2,), (10,), (50,), (100,), (100, 50)):
        yield f"network {layers}", standard(MLPClassifier(hidden_layer_sizes=layers, max_iter=100, random_state=SEED))
    for alpha in (0.1, 10.0):
        yield (
            f"network, decay {alpha:g}",
            standard(MLPClassifier(hidden_layer_sizes=(50,), alpha=alpha, max_iter=100, random_state=SEED)),
        )
    yield (
        "network, tanh",
        standard(MLPClassifier(hidden_layer_sizes=(50,), activation="tanh", max_iter=100, random_state=SEED)),
    )
    yield "network, few epochs", standard(MLPClassifier(hidden_layer_sizes=(50,), max_iter=5, random_state=SEED))
    yield "network, raw", MLPClassifier(hidden_layer_sizes=(30,), max_iter=100, random_state=SEED)
    yield (
        "network, large steps",
        standard(MLPClassifier(hidden_layer_sizes=(30,), learning_rate_init=0.3, max_iter=60, random_state=SEED)),
    )
    # Tuned on the training part.
    grids: tuple[tuple[str, BaseEstimator, dict[str, Any]], ...] = (
        ("SVM", standard(SVC()), {"svc__C": [1, 10, 100], "svc__gamma": [0.003, 0.01, 0.03]}),
        ("SVM, raw", SVC(), {"C": [1, 10, 100]}),
        ("logistic", standard(lm.LogisticRegression(max_iter=300)), {"logisticregression__C": [0.01, 0.1, 1, 10]}),
        ("neighbours", nn.KNeighborsClassifier(), {"n_neighbors": [1, 3, 5, 9], "weights": ["uniform", "distance"]}),
        ("tree", DecisionTreeClassifier(random_state=SEED), {"ccp_alpha": [0.0, 0.002, 0.005, 0.01, 0.02]}),
        ("forest", forest(60), {"max_features": ["sqrt", 0.3], "min_samples_leaf": [1, 3]}),
        ("extra trees", extra(60), {"max_features": ["sqrt", 0.3], "min_samples_leaf": [1, 3]}),
    )
    for name, model, grid in grids:
        yield f"tuned {name}", GridSearchCV(model, grid, cv=3)
    # Ensembles.
    svm = CalibratedClassifierCV(standard(SVC(C=10)), ensemble=False, cv=3)
    logistic = standard(lm.LogisticRegression(C=0.1, max_iter=300))
    near = nn.KNeighborsClassifier(3)
    net = standard(MLPClassifier(hidden_layer_sizes=(50,), max_iter=100, random_state=SEED))
    members = {"svm": svm, "logistic": logistic, "near": near, "net": net, "extra": extra(100), "forest": forest(100)}
    for names in (
        ("logistic", "forest"),
        ("svm", "extra"),
        ("svm", "near", "extra"),
        ("svm", "logistic", "net"),
        ("svm", "logistic", "near", "net", "extra", "forest"),
    ):
        chosen = [(name, members[name]) for name in names]
        yield f"blend of {', '.join(names)}", ensemble.VotingClassifier(chosen, voting="soft")
    for names in (("logistic", "forest"), ("svm", "near", "extra")):
        stacked = [(name, members[name]) for name in names]
        yield f"stack of {', '.join(names)}", ensemble.StackingClassifier(stacked, cv=3)


def regressors() -> Iterator[Team]:
    """The teams of a regression competition."""
    # Guesses.
    yield "mean", dummy.DummyRegressor()
    yield "median", dummy.DummyRegressor(strategy="median")
    yield "upper quartile", dummy.DummyRegressor(strategy="quantile", quantile=0.75)
    yield "hundred", dummy.DummyRegressor(strategy="constant", constant=100)
    # Neighbours.
    for k, scale in product((1, 3, 5, 10, 20, 60), (None, standard)):
        model = nn.KNeighborsRegressor(k)
        yield (f"{k} neighbours", model) if scale is None else (f"{k} neighbours, scaled", scale(model))
    yield "10 weighted neighbours", standard(nn.KNeighborsRegressor(10, weights="distance"))
    yield "20 weighted neighbours, city block", standard(nn.KNeighborsRegressor(20, weights="distance", p=1))
    # Linear models.
    yield "least squares", lm.LinearRegression()
    yield "least squares, no intercept", lm.LinearRegression(fit_intercept=False)
    for count in (1, 2, 5):
        yield f"least squares of the first {count} columns", first_columns(count, lm.LinearRegression())
        best = feature_selection.SelectKBest(feature_selection.f_regression, k=count)
        yield f"least squares of the best {count}", make_pipeline(best, lm.LinearRegression())
        yield f"least squares of {count} components", standard(make_pipeline(PCA(count), lm.LinearRegression()))
        yield f"partial least squares {count}", PLSRegression(count)
    for alpha in (0.1, 1.0, 10.0, 100.0, 1000.0, 10000.0):
        yield f"ridge {alpha:g}", standard(lm.Ridge(alpha=alpha))
    for alpha in (0.1, 1.0, 5.0, 20.0):
        yield f"lasso {alpha:g}", standard(lm.Lasso(alpha=alpha))
    for share in (0.2, 0.8):
        yield f"elastic net {share:g}", standard(lm.ElasticNet(alpha=1.0, l1_ratio=share))
    yield "least angles", standard(lm.Lars(n_nonzero_coefs=4, random_state=SEED))
    yield "matching pursuit", standard(lm.OrthogonalMatchingPursuit(n_nonzero_coefs=3))
    yield "Bayesian ridge", standard(lm.BayesianRidge())
    yield "relevance determination", standard(lm.ARDRegression())
    yield "Huber", standard(lm.HuberRegressor())
    yield "Theil-Sen", standard(lm.TheilSenRegressor(max_subpopulation=500, random_state=SEED))
    yield "random consensus", standard(lm.RANSACRegressor(random_state=SEED))
    yield "median regression", standard(lm.QuantileRegressor(alpha=0.01, solver="highs"))
    yield "Poisson", standard(lm.PoissonRegressor(alpha=0.1, max_iter=300))
    yield "gamma", standard(lm.GammaRegressor(alpha=0.1, max_iter=300))
    for loss, alpha in product(("squared_error", "epsilon_insensitive"), (1e-4, 1.0)):
        yield f"gradient descent {loss} {alpha:g}", standard(lm.SGDRegressor(loss=loss, alpha=alpha, random_state=SEED))
    # Derived features.
    for degree, alpha in product((2, 3), (0.01, 10.0, 300.0)):
        features = pp.PolynomialFeatures(degree)
        yield f"polynomials of degree {degree}, ridge {alpha:g}", standard(make_pipeline(features, lm.Ridge(alpha)))
    for knots, alpha in product((4, 10), (0.1, 10.0)):
        splines = pp.SplineTransformer(knots)
        yield f"splines with {knots} knots, ridge {alpha:g}", make_pipeline(splines, lm.Ridge(alpha))
    yield "bins", make_pipeline(pp.KBinsDiscretizer(5, encode="onehot", strategy="uniform"), lm.Ridge(5.0))
    yield "ranks", make_pipeline(pp.QuantileTransformer(n_quantiles=50), lm.Ridge(1.0))
    yield "power transform", make_pipeline(pp.PowerTransformer(), lm.Ridge(10.0))
    yield (
        "distances to clusters",
        standard(make_pipeline(cluster.KMeans(10, random_state=SEED, n_init=3), lm.Ridge(10.0))),
    )
    for count in (20, 200):
        kernel = kernel_approximation.Nystroem(n_components=count, gamma=0.05, random_state=SEED)
        yield f"Nystroem {count}", standard(make_pipeline(kernel, lm.Ridge(1.0)))
    # Support vector machines and kernels.
    for c in (0.01, 0.1, 1.0, 10.0, 100.0, 10000.0):
        yield f"SVM C={c:g}", standard(SVR(C=c))
    yield "SVM, raw", SVR()
    yield "SVM, linear", standard(SVR(kernel="linear", C=10.0))
    yield "SVM, cubic", standard(SVR(kernel="poly", C=10.0))
    yield "SVM, narrow", standard(SVR(C=100.0, gamma=1.0))
    yield "nu-SVM", standard(NuSVR(C=50.0, gamma=0.02))
    yield "linear SVM", standard(LinearSVR(C=1.0, random_state=SEED, max_iter=5000))
    for gamma, alpha in ((0.01, 1.0), (0.1, 1.0), (0.01, 0.01)):
        yield f"kernel ridge {gamma:g} {alpha:g}", standard(KernelRidge(kernel="rbf", gamma=gamma, alpha=alpha))
    kernels = gaussian_process.kernels
    for noise in (0.01, 0.5, 2.0):
        process = gaussian_process.GaussianProcessRegressor(
            kernels.RBF(5.0), alpha=noise, optimizer=None, normalize_y=True, random_state=SEED
        )
        yield f"Gaussian process, noise {noise:g}", standard(process)
    # Trees.
    for depth in (1, 2, 3, 5, None):
        yield f"tree of depth {depth}", DecisionTreeRegressor(max_depth=depth, random_state=SEED)
    for leaf in (5, 20, 60):
        yield f"tree with leaves of {leaf}", DecisionTreeRegressor(min_samples_leaf=leaf, random_state=SEED)
    yield "random tree", ExtraTreeRegressor(random_state=SEED)
    # Forests.
    forest = partial(ensemble.RandomForestRegressor, random_state=SEED)
    extra = partial(ensemble.ExtraTreesRegressor, random_state=SEED)
    for count in (3, 10, 30, 100, 300):
        yield f"forest of {count}", forest(count)
    for depth in (1, 2, 4):
        yield f"forest of depth {depth}", forest(100, max_depth=depth)
    for share in (0.2, 0.5):
        yield f"forest of {share:g} of the columns", forest(100, max_features=share)
    for leaf in (5, 20):
        yield f"forest with leaves of {leaf}", forest(100, min_samples_leaf=leaf)
    yield "forest of absolute errors", forest(20, criterion="absolute_error")
    yield "forest of the first 4 columns", first_columns(4, forest(100))
    for count in (10, 100, 300):
        yield f"extra trees {count}", extra(count)
    yield "extra trees with leaves of 5", extra(100, min_samples_leaf=5)
    yield "bagged trees", ensemble.BaggingRegressor(n_estimators=30, random_state=SEED)
    yield (
        "bagged neighbours",
        standard(ensemble.BaggingRegressor(nn.KNeighborsRegressor(10), 20, max_features=0.5, random_state=SEED)),
    )
    # Boosting.
    for loss in ("linear", "square", "exponential"):
        yield f"AdaBoost {loss}", ensemble.AdaBoostRegressor(loss=loss, random_state=SEED)
    boosting = partial(ensemble.GradientBoostingRegressor, random_state=SEED)
    for rate, count, depth in ((0.01, 30, 3), (0.1, 30, 3), (0.1, 100, 3), (0.1, 500, 5), (1.0, 50, 3), (0.05, 150, 2)):
        yield (
            f"gradient boosting {count} × {rate:g}, depth {depth}",
            boosting(n_estimators=count, learning_rate=rate, max_depth=depth),
        )
    for loss in ("huber", "absolute_error"):
        yield f"gradient boosting, {loss}", boosting(loss=loss, subsample=0.7)
    for rate, count in ((0.02, 20), (0.1, 30), (0.1, 200), (0.5, 50)):
        yield (
            f"histogram boosting {count} × {rate:g}",
            ensemble.HistGradientBoostingRegressor(max_iter=count, learning_rate=rate, random_state=SEED),
        )
    # Neural networks.
    network = partial(MLPRegressor, random_state=SEED, learning_rate_init=0.01)
    for layers in ((5,), (30,), (100,), (50, 20)):
        yield f"network {layers}", standard(network(hidden_layer_sizes=layers, max_iter=200))
    yield "network, decay", standard(network(hidden_layer_sizes=(30,), alpha=30.0, max_iter=200))
    yield "network, few epochs", standard(network(hidden_layer_sizes=(30,), max_iter=20))
    yield "network, stopping itself", standard(network(hidden_layer_sizes=(50,), early_stopping=True, max_iter=300))
    yield "network, raw", network(hidden_layer_sizes=(30,), max_iter=200)
    # Tuned on the training part.
    grids: tuple[tuple[str, BaseEstimator, dict[str, Any]], ...] = (
        ("ridge", standard(lm.Ridge()), {"ridge__alpha": [0.1, 1, 10, 30, 100]}),
        ("lasso", standard(lm.Lasso()), {"lasso__alpha": [0.1, 0.3, 1, 2, 4]}),
        ("SVM", standard(SVR()), {"svr__C": [10, 30, 100, 300], "svr__gamma": [0.003, 0.01, 0.03]}),
        ("neighbours", standard(nn.KNeighborsRegressor()), {"kneighborsregressor__n_neighbors": [5, 10, 15, 25, 40]}),
        ("tree", DecisionTreeRegressor(random_state=SEED), {"max_depth": [2, 3, 4], "min_samples_leaf": [1, 5, 15]}),
        ("forest", forest(60), {"max_features": [0.3, 0.6], "min_samples_leaf": [1, 5, 10]}),
        ("boosting", boosting(subsample=0.6), {"max_depth": [1, 2, 3], "learning_rate": [0.02, 0.05]}),
    )
    for name, model, grid in grids:
        yield f"tuned {name}", GridSearchCV(model, grid, cv=5, scoring="neg_root_mean_squared_error")
    # Ensembles.
    members = {
        "ridge": standard(lm.Ridge(10.0)),
        "lasso": standard(lm.Lasso(1.0)),
        "svm": standard(SVR(C=30, gamma=0.02)),
        "near": standard(nn.KNeighborsRegressor(20)),
        "forest": forest(100, min_samples_leaf=5),
        "boosting": boosting(learning_rate=0.05, max_depth=2, subsample=0.7),
    }
    for names in (("ridge", "forest"), ("svm", "boosting"), ("ridge", "svm", "forest"), tuple(members)):
        chosen = [(name, members[name]) for name in names]
        yield f"blend of {', '.join(names)}", ensemble.VotingRegressor(chosen)
        if len(names) > 2:
            yield f"stack of {', '.join(names)}", ensemble.StackingRegressor(chosen, cv=5)


def population(competition_id: str) -> list[Team]:
    teams = list(regressors() if competition_id == "smoke-diabetes" else classifiers())
    if len({name for name, _ in teams}) != len(teams):
        raise ValueError("two teams have the same name")
    return teams


def predict(model: BaseEstimator, competition_id: str, features: pd.DataFrame) -> np.ndarray:
    """Predictions in the form that the competition requires: digits, probabilities or bounded progressions."""
    if competition_id == "smoke-digits":
        return np.asarray(model.predict(features))
    if competition_id == "smoke-diabetes":
        return np.asarray(model.predict(features)).ravel().clip(0, 1000)
    if hasattr(model, "predict_proba"):
        return np.asarray(model.predict_proba(features))[:, 1]
    return np.asarray(expit(model.decision_function(features)))


def play(competition_id: str, data_dir: Path, number: int) -> tuple[str, float | None, float]:
    """Fit and score one team. Returns its name, score (None if the submission is invalid) and seconds."""
    name, model = population(competition_id)[number]
    dataset, scorer, train, test = _tables(competition_id, data_dir)
    target = TARGETS[competition_id]
    started = time.perf_counter()
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        model.fit(train.drop(columns=["id", target]).astype(float), train[target])
        values = predict(model, competition_id, test.drop(columns="id").astype(float))
    submission = dataset.folder / f"{number}.csv"
    pd.DataFrame({"id": test["id"], target: values}).to_csv(submission, index=False)
    try:
        score: float | None = round(scorer.score(submission), 5)
    except InvalidSubmission as error:
        print(f"{name}: left out: {error}", file=sys.stderr)
        score = None
    return name, score, time.perf_counter() - started


@cache
def _tables(competition_id: str, data_dir: Path) -> tuple[Dataset, Scorer, pd.DataFrame, pd.DataFrame]:
    competition = _competition(competition_id)
    dataset = DataStore(data_dir).prepare(competition, verify=False)
    train, test = (pd.read_csv(dataset.public / name) for name in ("train.csv", "test.csv"))
    return dataset, Scorer(competition, dataset.answers), train, test


def _competition(competition_id: str) -> Competition:
    return Competition.load(ROOT / "competitions" / competition_id)


def leaderboard(competition_id: str, processes: int, show: Callable[[str], None]) -> tuple[Leaderboard, list[float]]:
    """Score all teams. Returns the leaderboard, and all scores, best first."""
    competition = _competition(competition_id)
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(processes) as pool:
        DataStore(Path(folder)).prepare(competition, verify=False)
        results = list(pool.map(partial(play, competition_id, Path(folder)), range(len(population(competition_id)))))
    ranked = sorted(
        ((name, score, seconds) for name, score, seconds in results if score is not None),
        key=lambda result: result[1],
        reverse=not competition.lower_is_better,
    )
    for rank, (name, score, seconds) in enumerate(ranked, 1):
        show(f"{rank:4}  {score:10.5f}  {seconds:6.2f} s  {name}")
    scores = [score for _, score, _ in ranked]
    if len(scores) < 100:
        raise ValueError(f"only {len(scores)} teams of {competition_id} have a score; a leaderboard needs 100")
    return Leaderboard.from_scores(scores, lower_is_better=competition.lower_is_better, source=SOURCE), scores


def section(board: Leaderboard, scores: list[float]) -> str:
    """The ``leaderboard`` section of a ``competition.yaml``, which is always the last section."""
    figures = {name: getattr(board, name) for name in ("teams", "gold", "silver", "bronze", "median")}
    figures |= {"best": scores[0], "worst": scores[-1], "source": board.source}
    lines = [
        "leaderboard:",
        *(f"  {key}: {round(value, 6) if key == 'median' else value}" for key, value in figures.items()),
    ]
    percentiles = "  percentiles: [" + ", ".join(map(str, board.percentiles)) + "]"
    lines += re.sub(r"(.{100,118},) ", r"\1\n    ", percentiles).splitlines()
    return "\n".join(lines) + "\n"


def differences(old: Leaderboard, new: Leaderboard, scores: list[float]) -> list[str]:
    """Committed figures that were not reproduced."""
    allowed = TOLERANCE * abs(scores[0] - scores[-1])
    wrong = [] if old.teams == new.teams else [f"teams: {old.teams} committed, {new.teams} found"]
    for name in ("gold", "silver", "bronze", "median"):
        committed, found = getattr(old, name), getattr(new, name)
        if abs(committed - found) > allowed:
            wrong.append(f"{name}: {committed} committed, {found} found (allowed: ±{allowed:.5f})")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ids", nargs="*", metavar="ID", help=f"any of {', '.join(TARGETS)} (default: all)")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if figures are not reproduced")
    parser.add_argument("--show", action="store_true", help="list every team's score")
    parser.add_argument("--processes", type=int, default=2, help="teams to run in parallel (default: %(default)s)")
    options = parser.parse_args()
    if unknown := set(options.ids) - TARGETS.keys():
        parser.error(f"unknown competition {', '.join(sorted(unknown))}")
    failed = False
    for competition_id in options.ids or TARGETS:
        started = time.perf_counter()
        board, scores = leaderboard(competition_id, options.processes, print if options.show else lambda _: None)
        wrong: list[str] = []
        if options.check:
            wrong = differences(_competition(competition_id).leaderboard, board, scores)
        else:
            file = ROOT / "competitions" / competition_id / "competition.yaml"
            before, _, _ = file.read_text(encoding="utf-8").partition("leaderboard:\n")
            file.write_text(before + section(board, scores), encoding="utf-8")
        failed = failed or bool(wrong)
        print(
            f"{competition_id}: {board.teams} teams from {scores[0]} to {scores[-1]}, gold {board.gold}, "
            f"silver {board.silver}, bronze {board.bronze}, median {board.median:g} "
            f"({time.perf_counter() - started:.0f} s)",
            *wrong,
            sep="\n  ",
        )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
