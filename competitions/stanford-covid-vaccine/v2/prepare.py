from pathlib import Path

import numpy as np
import pandas as pd
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cdist
from scipy.sparse.csgraph import connected_components

from pytest_mlebench.authoring.corrections import hold_out_groups

from .. import prepare as first

SIMILAR = 0.8
"""Minimum share of bases in common that joins two sequences into a cluster."""


def prepare(raw: Path, public: Path, private: Path) -> None:
    molecules = pd.read_json(raw / "train.json", lines=True)
    clusters = clusters_of(molecules["sequence"].tolist())
    reliable = np.flatnonzero(molecules["SN_filter"] > 0)
    _, test = hold_out_groups(lambda rows: clusters[rows])(reliable, test_size=len(molecules) // 10)
    train = molecules[~np.isin(clusters, clusters[test])]
    first.write_sides(train, molecules.iloc[test], raw, public, private)


def clusters_of(sequences: list[str]) -> np.ndarray:
    similarity = cdist(sequences, sequences, scorer=Levenshtein.normalized_similarity, score_cutoff=SIMILAR)
    return connected_components(similarity > 0, directed=False)[1]
