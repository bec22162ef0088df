"""The features and pipelines that are tried on a competition."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.decomposition import TruncatedSVD
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge, RidgeCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.svm import SVC, SVR
from tables import SEED, to_numbers

MAX_KERNEL_ROWS = 5_000
MAX_KERNEL_CELLS = 150_000
"""Maximum rows times classes for support vectors, which need a machine per pair of classes."""
TREES = 100
MANY_NUMBERS = 200
"""With more numeric columns than this, linear models are regularized more: those of pictures are redundant."""
MANY_CLASSES = 20
"""With more classes and many numeric columns, discriminants replace linear models and support vectors (both slow)."""
MAX_BOOSTED_CLASSES = 5
"""Boosting grows a tree per class and round, so with many classes it takes too long for its benefit."""


class Features:
    """The columns of the feature table by kind, and the transformers for linear models or trees."""

    def __init__(self, train: pd.DataFrame) -> None:
        self.numeric: list[str] = []
        self.categorical: list[str] = []
        self.text: list[str] = []
        for column in train:
            values = train[column].dropna()
            if values.nunique() < 2:
                continue
            if pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values):
                self.numeric.append(column)
            elif values.astype(str).str.split().str.len().mean() >= 3:
                self.text.append(column)
            elif values.nunique() <= max(20, len(values) / 4):  # otherwise it is a name
                self.categorical.append(column)

    def __bool__(self) -> bool:
        return bool(self.numeric or self.categorical or self.text)

    def describe(self) -> str:
        kinds = {"numeric": self.numeric, "categorical": self.categorical, "text": self.text}
        return "; ".join(
            f"{len(c)} {kind} ({', '.join(c[:6])}{' …' if len(c) > 6 else ''})" for kind, c in kinds.items() if c
        )

    def table(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return the input of the transformers: numbers as floats, the rest as text."""
        columns: dict[str, pd.Series] = {}
        for name in self.numeric:
            columns[name] = to_numbers(rows[name]).astype(float).replace([np.inf, -np.inf], np.nan)
        for name in (*self.categorical, *self.text):
            columns[name] = rows[name].astype(object).where(rows[name].notna(), "").astype(str)
        return pd.DataFrame(columns, index=rows.index)

    def for_linear(self) -> ColumnTransformer:
        numbers = make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler())
        classes = OneHotEncoder(handle_unknown="infrequent_if_exist", max_categories=50)
        texts = [
            (name, TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, max_features=50_000), name)
            for name in self.text
        ]
        return ColumnTransformer([("numbers", numbers, self.numeric), ("classes", classes, self.categorical), *texts])

    def for_trees(self) -> ColumnTransformer:
        numbers = SimpleImputer(strategy="median", add_indicator=True)
        classes = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
        texts = [
            (
                name,
                make_pipeline(
                    TfidfVectorizer(sublinear_tf=True, max_features=20_000), TruncatedSVD(30, random_state=SEED)
                ),
                name,
            )
            for name in self.text
        ]
        parts = [("numbers", numbers, self.numeric), ("classes", classes, self.categorical), *texts]
        return ColumnTransformer(parts, sparse_threshold=0)


def classifiers(features: Features, rows: int, classes: int) -> Iterator[tuple[str, Pipeline]]:
    """Yield pipelines with ``predict_proba``, fast ones first."""
    strengths = (10.0, 1.0) if features.text else (1.0, 0.05)
    if len(features.numeric) > MANY_NUMBERS:
        strengths = (0.03, 0.003)
    discriminants = classes > MANY_CLASSES and len(features.numeric) > MANY_NUMBERS
    if discriminants:  # faster and better than regression
        for share in (0.3, 0.7):
            discriminant = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=share)
            yield f"discriminants, {share}", make_pipeline(features.for_linear(), discriminant)
    else:
        for name, strength in zip(("linear model", "linear model, smoother"), strengths, strict=True):
            yield name, make_pipeline(features.for_linear(), LogisticRegression(C=strength, max_iter=300))
    if not discriminants and rows <= MAX_KERNEL_ROWS and rows * classes <= MAX_KERNEL_CELLS and not features.text:
        machine = CalibratedClassifierCV(SVC(C=10.0), ensemble=False, cv=3)
        yield "support vectors", make_pipeline(features.for_linear(), machine)
    trees = ExtraTreesClassifier(TREES, min_samples_leaf=1 if rows <= MAX_KERNEL_ROWS else 3, random_state=SEED)
    yield "extra trees", make_pipeline(features.for_trees(), trees)
    if classes <= (MAX_BOOSTED_CLASSES if len(features.numeric) <= MANY_NUMBERS else 2):
        boosting = HistGradientBoostingClassifier(learning_rate=0.08, max_leaf_nodes=15, random_state=SEED)
        yield "gradient boosting", make_pipeline(features.for_trees(), boosting)


def regressors(features: Features, rows: int) -> Iterator[tuple[str, Pipeline]]:
    """Yield pipelines with ``predict``, fast ones first."""
    if features.text:
        for name, strength in (("linear model", 1.0), ("linear model, smoother", 10.0)):
            yield name, make_pipeline(features.for_linear(), Ridge(strength, solver="sparse_cg", tol=1e-3))
    else:
        yield "linear model", make_pipeline(features.for_linear(), RidgeCV(np.logspace(-2, 4, 13)))
    if rows <= MAX_KERNEL_ROWS and not features.text:
        machine = TransformedTargetRegressor(SVR(C=1.0), transformer=StandardScaler())
        yield "support vectors", make_pipeline(features.for_linear(), machine)
    share = 0.15 if len(features.numeric) > MANY_NUMBERS else 1.0
    trees = ExtraTreesRegressor(TREES, min_samples_leaf=3, max_features=share, random_state=SEED)
    yield "extra trees", make_pipeline(features.for_trees(), trees)
    boosting = HistGradientBoostingRegressor(learning_rate=0.05, max_leaf_nodes=15, random_state=SEED)
    yield "gradient boosting", make_pipeline(features.for_trees(), boosting)
