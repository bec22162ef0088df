"""Four strategies for any competition with tables: python3 solve.py sample|mean|numbers|words."""

import os
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd

DATA, STRATEGY, WORDS = Path(os.environ["DATA_DIR"]), sys.argv[1], 1024
TARGET = Path(os.environ["SUBMISSION_DIR"], "submission.csv")


def table(*names: str) -> pd.DataFrame:
    (found, *_) = (path for name in names for path in DATA.glob(name))
    return pd.read_csv(found)


def numbers(columns: pd.DataFrame) -> np.ndarray:
    """Standardised numbers, their squares, and one-hot encodings of columns with few values."""
    few = [name for name in columns if columns[name].dtype.kind not in "iuf" and columns[name].nunique() <= 20]
    values = columns.select_dtypes("number").fillna(0).to_numpy(float)
    values = (values - values.mean(0)) / (values.std(0) + 1e-9)
    kinds = [pd.get_dummies(columns[name].astype(str)).to_numpy(float) for name in few]
    return np.column_stack([values, values**2, *kinds])


def words(columns: pd.DataFrame) -> np.ndarray:
    """Hashed counts of words and their prefixes in texts, and the total count."""
    texts = columns.select_dtypes(exclude="number").fillna("").astype(str).agg(" ".join, axis=1)
    counts = np.zeros((len(texts), WORDS))
    for row, text in enumerate(texts):
        for word in re.findall(r"\w+|[^\w\s]", text.lower()):
            for part in (word, word[:4]):
                counts[row, sum(part.encode()) * 31 % 7919 * len(part) % WORDS] += 1
    return np.column_stack([np.log1p(counts), np.log1p(counts.sum(1))])


def predict(known: np.ndarray, targets: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Ridge regression in its dual form, whose system has one row per training row."""
    mean, center = targets.mean(0), known.mean(0)
    known, wanted = known - center, wanted - center
    strength = 0.05 * (known**2).sum() / len(known)
    weights = np.linalg.solve(known @ known.T + strength * np.eye(len(known)), targets - mean)
    return wanted @ (known.T @ weights) + mean


sample = table("sample*ubmission*.csv")
train, test = table("train.csv"), table("test.csv")
train = train.sample(min(len(train), 800), random_state=0)
id, *columns = [name for name in sample.columns if name not in test.columns or name == sample.columns[0]]
if id in test.columns:
    test = test.set_index(id).loc[sample[id]].reset_index()
else:  # without ids, rows are in the order of the sample
    columns = [id]
shared = [name for name in test.columns if name in train.columns and name != id]
labels = None
if not set(columns) <= set(train.columns):  # the columns are classes
    (column,) = [name for name in train.columns if set(columns) <= set(train[name].astype(str))]
    targets = pd.get_dummies(train[column].astype(str))[columns]
elif len(columns) == 1 and sample[columns[0]].dtype.kind != "f":
    labels = np.sort(train[columns[0]].unique())
    targets = pd.get_dummies(train[columns[0]])
else:
    targets = train[columns]
values = targets.to_numpy(float)
if STRATEGY == "sample":
    sample.to_csv(TARGET, index=False)
    raise SystemExit
if STRATEGY == "mean":
    predicted = np.tile(values.mean(0), (len(test), 1))
else:
    features = {"numbers": numbers, "words": words}[STRATEGY](pd.concat([train, test])[shared])
    predicted = predict(features[: len(train)], values, features[len(train) :])
if labels is not None:
    sample[columns[0]] = labels[predicted.argmax(1)]
else:
    margin = (values.max(0) - values.min(0)) * 1e-3
    predicted = np.clip(predicted, values.min(0) + margin, values.max(0) - margin)
    if len(columns) > 1 and np.allclose(sample[columns].sum(axis=1), 1):  # probabilities
        predicted /= predicted.sum(1, keepdims=True)
    sample[columns] = predicted
sample.to_csv(TARGET, index=False)
