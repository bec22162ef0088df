"""Solvers for image and scan competitions."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pydicom
from PIL import Image
from scipy.ndimage import binary_fill_holes, find_objects, gaussian_filter, label
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

# Characters on pages: kuzushiji-recognition


def characters(public: Path) -> pd.DataFrame:
    """Classify connected pieces of ink, after cutting pieces as large as several characters."""
    train, sample = pd.read_csv(public / "train.csv").dropna(), pd.read_csv(public / "sample_submission.csv")
    boxes = {id: np.array(labels.split()).reshape(-1, 5) for id, labels in train.to_numpy()}
    sizes = np.concatenate([rows[:, 3:].astype(float) for rows in boxes.values()])
    largest, x, y = np.quantile(sizes, 0.98), [], []
    for id, pieces in _pieces(public / "train_images.zip", boxes, largest).items():
        left, top, width, height = boxes[id][:, 1:].astype(float).T
        for across, down, window in pieces:
            inside = (left <= across) & (across <= left + width) & (top <= down) & (down <= top + height)
            if inside.sum() == 1:
                x.append(window)
                y.append(boxes[id][inside.argmax(), 0])
    model = SVC(C=10).fit(x, y)
    found = []
    for pieces in _pieces(public / "test_images.zip", sample["image_id"], largest).values():
        kinds = model.predict([window for *_, window in pieces]) if pieces else []
        found.append(" ".join(f"{kind} {x:.0f} {y:.0f}" for kind, (x, y, _) in zip(kinds, pieces, strict=True)))
    return sample.assign(labels=found)


def _pieces(path: Path, names: Iterable[str], largest: float) -> dict[str, list[tuple[float, float, np.ndarray]]]:
    """For each page: the centre of each piece of ink, and its pixels and size as features."""
    found: dict[str, list[tuple[float, float, np.ndarray]]] = {}
    with zipfile.ZipFile(path) as archive:
        for name in names:
            page = np.asarray(Image.open(archive.open(f"{name}.jpg")).convert("L"), float)
            ink = np.clip((gaussian_filter(page, largest) - page) / (np.ptp(page) + 1), 0, 1)
            dark, found[name] = ink > 0.25, []
            for rows, columns in find_objects(label(dark, np.ones((3, 3)))[0]):
                pieces = max(1, round((rows.stop - rows.start) / largest))
                edges = np.linspace(rows.start, rows.stop, pieces + 1).astype(int)
                for top, bottom in pairwise(edges.tolist()):
                    part = ink[top:bottom, columns]
                    if dark[top:bottom, columns].sum() > largest:
                        window = Image.fromarray(part).resize((16, 16), Image.Resampling.BILINEAR)
                        shape = [part.shape[0] / largest, part.shape[1] / largest]
                        middle = ((columns.start + columns.stop) / 2, (top + bottom) / 2)
                        found[name].append((*middle, np.concatenate([np.asarray(window).ravel(), shape, shape])))
    return found


# Findings in scans: vinbigdata-chest-xray-abnormalities-detection


def findings(public: Path) -> pd.DataFrame:
    """Predict for each class the share of raters who report a finding, and its box, both from all pixels."""
    train, sample = pd.read_csv(public / "train.csv"), pd.read_csv(public / "sample_submission.csv")
    raters = train.groupby("image_id")["rad_id"].nunique()
    x = np.stack([_scan(public / "train" / f"{id}.dicom") for id in raters.index])
    asked = np.stack([_scan(public / "test" / f"{id}.dicom") for id in sample["image_id"]])
    found: list[list[str]] = [[] for _ in asked]
    for kind, rows in train.groupby("class_id"):
        by = rows.groupby("image_id")
        share = (by["rad_id"].nunique().reindex(raters.index).fillna(0) / raters).to_numpy()
        chances = ExtraTreesRegressor(200, min_samples_leaf=2, max_features=0.3, random_state=0).fit(x, share)
        places = np.tile([0, 0, 1, 1], (len(asked), 1))  # for the class "no finding"
        if rows["x_min"].notna().any():
            boxes = by[["x_min", "y_min", "x_max", "y_max"]].mean()
            model = ExtraTreesRegressor(100, max_features=0.3, random_state=0)
            places = model.fit(x[share > 0], boxes).predict(asked)
        for own, chance, box in zip(found, chances.predict(asked), places, strict=True):
            own.append(" ".join([f"{kind} {chance:.4f}", *(f"{value:.1f}" for value in box)]))
    return sample.assign(PredictionString=[" ".join(own) for own in found])


def _scan(path: Path) -> np.ndarray:
    scan = pydicom.dcmread(path)
    pixels = scan.pixel_array.astype(float) * (-1 if scan.PhotometricInterpretation == "MONOCHROME1" else 1)
    pixels = (pixels - pixels.mean()) / (pixels.std() + 1e-6)
    return np.asarray(Image.fromarray(gaussian_filter(pixels, 1)).resize((24, 24))).ravel()


# Courses of illness: osic-pulmonary-fibrosis-progression


def lungs(public: Path) -> pd.DataFrame:
    """Predict the change of lung capacity after the first visit, with its confidence, from the patient and the scan."""
    table, first = pd.read_csv(public / "train.csv"), pd.read_csv(public / "test.csv").set_index("Patient")
    start = table.sort_values("Weeks").drop_duplicates("Patient").set_index("Patient")
    people, asked = _person(start, public / "train"), _person(first, public / "test")
    scale = StandardScaler().fit(people)
    later = table.join(start[["Weeks", "FVC"]], on="Patient", rsuffix="_0").query("Weeks > Weeks_0")
    weeks, lost = (later["Weeks"] - later["Weeks_0"]).to_numpy(), (later["FVC"] - later["FVC_0"]).to_numpy()
    x = _courses(scale.transform(people.loc[later["Patient"]]), weeks)
    held = pd.factorize(later["Patient"])[0] % 5 == 0
    model = RidgeCV(np.geomspace(0.1, 1e3, 9), fit_intercept=False)
    errors = np.abs(model.fit(x[~held], lost[~held]).predict(x[held]) - lost[held])

    sample = pd.read_csv(public / "sample_submission.csv")
    parts = sample["Patient_Week"].str.rpartition("_")
    known = first.loc[parts[0]]
    after = parts[2].astype(int).to_numpy() - known["Weeks"].to_numpy()
    changes = model.fit(x, lost).predict(_courses(scale.transform(asked.loc[parts[0]]), after))
    spread = np.sqrt(2) * np.polyval(np.polyfit(weeks[held], errors, 1), np.abs(after))
    return sample.assign(FVC=known["FVC"].to_numpy() + changes, Confidence=spread.clip(70))


def _courses(people: np.ndarray, weeks: np.ndarray) -> np.ndarray:
    """Features for a linear and a quadratic trend that depend on the patient."""
    about, time = np.hstack([np.ones((len(people), 1)), people]), weeks[:, None] / 50
    return np.hstack([about * time, about * time**2])


def _person(table: pd.DataFrame, folder: Path) -> pd.DataFrame:
    made = table[["FVC", "Percent", "Age"]].assign(male=table["Sex"] == "Male")
    for kind in ("Never smoked", "Ex-smoker", "Currently smokes"):
        made[kind] = table["SmokingStatus"] == kind
    tissue = []
    for patient in table.index:
        slices = [pydicom.dcmread(path) for path in sorted((folder / patient).glob("*.dcm"))]
        values = [own.pixel_array * float(own.RescaleSlope) + float(own.RescaleIntercept) for own in slices]
        counts = np.mean([np.histogram(own, [-980, -700, -500, -150, 200])[0] for own in values], axis=0)
        tissue.append(counts / (counts[:3].sum() + 1))
    shares = pd.DataFrame(tissue, table.index, ["air", "haze", "scars", "body"])
    return pd.concat([made.astype(float), shares, shares[["scars"]].pow(2).add_suffix("²")], axis=1)


# Animals told apart: whale-categorization-playground


def whales(public: Path) -> pd.DataFrame:
    """Predict the five likeliest animals by colour, pattern and outline of the region that differs from the edges."""
    train, sample = pd.read_csv(public / "train.csv"), pd.read_csv(public / "sample_submission.csv")
    x = np.stack([_animal(public / "train" / name) for name in train["Image"]])
    asked = np.stack([_animal(public / "test" / name) for name in sample["Image"]])
    seen = train["Id"].map(train["Id"].value_counts())
    y = train["Id"].where(seen > 3, "new_whale")
    linear = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=500))
    trees = ExtraTreesClassifier(400, min_samples_leaf=2, max_features=0.3, random_state=0)
    p = linear.fit(x, y).predict_proba(asked) + trees.fit(x, y).predict_proba(asked)
    return sample.assign(Id=[" ".join(linear.classes_[row[:5]]) for row in (-p).argsort(axis=1)])


def _animal(path: Path) -> np.ndarray:
    image = Image.open(path).convert("RGB").resize((64, 64))
    colours = np.asarray(image, float) / 255
    edge = np.concatenate([colours[:3], colours[-3:], colours[:, :3].swapaxes(0, 1), colours[:, -3:].swapaxes(0, 1)])
    gap, inverse = (
        colours - np.median(edge, axis=(0, 1)),
        np.linalg.inv(np.cov(edge.reshape(-1, 3).T) + 1e-3 * np.eye(3)),
    )
    away = gaussian_filter(np.sqrt(np.einsum("ijk,kl,ijl->ij", gap, inverse, gap)), 1)
    pieces = label(away > 0.5 * np.median(away) + 0.45 * np.quantile(away, 0.95))[0]
    mask = binary_fill_holes(pieces == 1 + np.bincount(pieces.ravel())[1:].argmax())

    tint, strength, light = (np.asarray(image.convert("HSV"), float) / 255)[mask].T
    turn = np.exp(2j * np.pi * tint) @ strength / (strength.sum() + 1e-6)
    colour = [turn.real, turn.imag, strength.mean(), light.std(), *np.quantile(light, [0.1, 0.5, 0.9])]

    grey, inside = colours.mean(axis=2), gaussian_filter(mask.astype(float), 3) + 1e-3
    power = np.abs(np.fft.fft2((grey - gaussian_filter(grey * mask, 3) / inside) * mask)) ** 2
    fine = np.hypot(*np.meshgrid(*[np.fft.fftfreq(64)] * 2))
    pattern = np.log(np.histogram(fine, 8, (0.03, 0.45), weights=power)[0] / mask.sum() + 1e-6)

    y, x = (places - places.mean() for places in np.nonzero(mask))
    far, side = np.hypot(y, x), ((np.arctan2(y, x) / np.pi + 1) * 16).astype(int) % 32
    outline = np.array([far[side == k].max(initial=0) for k in range(32)])
    return np.concatenate([colour, pattern, np.abs(np.fft.rfft(outline / outline.mean()))[1:9]])
