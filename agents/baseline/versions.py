"""Detects changes in JPEG pictures from their coefficients. Several folders contain them, one in unchanged form."""

from __future__ import annotations

import io
import re
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.fft import dct
from tables import SEED

MAX_PICTURES = 1500
"""Maximum number of pictures that are read from each training folder."""
UNCHANGED = re.compile(r"un(?:altered|changed|touched|modified)|original", re.I)
_BANDS, _MOST = range(1, 11), 3
_COSINES = dct(np.eye(8), norm="ortho", axis=0)
_WAVES = np.kron(_COSINES, _COSINES).astype(np.float32)
_BAND = np.add.outer(np.arange(8), np.arange(8)).ravel()


def coefficient_numbers(path: Path) -> np.ndarray:
    """Return the first quantization step, then the shares of coefficients that are 1, 2, 3 and not 0, per band."""
    from PIL import Image

    with Image.open(io.BytesIO(path.read_bytes())) as image:
        steps = np.array(image.quantization[0], dtype=np.float32)
        light = np.asarray(image.convert("YCbCr"), dtype=np.float32)[..., 0] - 128
    height, width = (side // 8 for side in light.shape)
    blocks = light[: height * 8, : width * 8].reshape(height, 8, width, 8).swapaxes(1, 2).reshape(-1, 64)
    sizes = np.abs(np.rint(blocks @ _WAVES.T / steps))
    shares = []
    for band in _BANDS:
        own = sizes[:, band == _BAND]
        shares += [(own == size).mean() for size in range(1, _MOST + 1)] + [(own > 0).mean()]
    return np.array([steps[0], *np.log(np.array(shares) + 1e-4)])


def _folders(data: Path) -> dict[Path, dict[str, Path]]:
    """Return the folders with JPEG files, and these files by name."""
    found: dict[Path, dict[str, Path]] = {}
    for path in sorted(data.rglob("*")):
        if path.suffix.lower() in (".jpg", ".jpeg"):
            found.setdefault(path.parent, {})[path.name] = path
    return found


def version_submission(data: Path, sample: pd.DataFrame, description: str) -> pd.DataFrame | None:
    """Predict the probability that a picture is changed; None unless folders have the same files, one unchanged."""
    folders = _folders(data)
    asked = set(sample.iloc[:, 0])
    test = next((folder for folder, own in folders.items() if asked <= own.keys()), None)
    known = [folder for folder in folders if folder != test]
    if test is None or sample.shape[1] != 2 or not 2 <= len(known) <= 20:
        return None
    common = set.intersection(*(set(folders[folder]) for folder in known))
    lines = description.splitlines()
    plain = [
        folder
        for folder in known
        if any(f"{folder.name}/" in line and UNCHANGED.search(line) and "test" not in line.lower() for line in lines)
    ]
    if len(plain) != 1 or len(common) < 0.9 * max(len(folders[folder]) for folder in known):
        return None
    names = np.random.default_rng(SEED).permutation(sorted(common))[:MAX_PICTURES]
    x = np.array([coefficient_numbers(folders[folder][name]) for folder in known for name in names])
    y = np.repeat([folder.name for folder in known], len(names))
    unseen = np.array([coefficient_numbers(folders[test][name]) for name in sample.iloc[:, 0]])
    return sample.assign(**{sample.columns[1]: _changed(x, y, unseen, plain[0].name)})


def _changed(x: np.ndarray, y: np.ndarray, unseen: np.ndarray, plain: str) -> np.ndarray:
    """Predict the probability that a picture is not plain, relative to pictures with the same compression."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    scaled, asked = x[:, 1:].copy(), unseen[:, 1:].copy()
    for step in np.unique(x[:, 0]):
        own = x[x[:, 0] == step, 1:]
        for values, steps in ((scaled, x[:, 0]), (asked, unseen[:, 0])):
            values[steps == step] = (values[steps == step] - own.mean(axis=0)) / (own.std(axis=0) + 1e-3)
    classes, priors = np.unique(y), np.full(len(np.unique(y)), 0.5 / (len(np.unique(y)) - 1))
    priors[classes == plain] = 0.5
    model = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto", priors=priors).fit(scaled, y)
    return np.asarray(1 - model.predict_proba(asked)[:, list(classes).index(plain)])
