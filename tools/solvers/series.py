"""Solvers for sequence competitions: breaths, receiver positions, molecules and sounds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import soundfile
from scipy.ndimage import gaussian_filter1d, median_filter
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

# Series to series: ventilator-pressure-prediction


def breaths(public: Path) -> pd.DataFrame:
    """Predict pressure from the inflow so far, its changes and the next step, and the kind of lung."""
    train, test = (pd.read_csv(public / f"{part}.csv") for part in ("train", "test"))
    x, asked = _flows(train), _flows(test)
    graded = train["u_out"].to_numpy() == 0
    found = np.full(len(test), train.loc[~graded, "pressure"].median())
    rows = test["u_out"].to_numpy() == 0
    models = [
        HistGradientBoostingRegressor(max_iter=400, learning_rate=0.1, max_leaf_nodes=31, random_state=seed)
        for seed in range(2)
    ]
    y = train.loc[graded, "pressure"]
    found[rows] = np.mean([model.fit(x[graded], y).predict(asked[rows]) for model in models], axis=0)
    return test[["id"]].assign(pressure=found)


def _flows(table: pd.DataFrame) -> np.ndarray:
    by = table["breath_id"]
    flow, passed = table["u_in"], table["time_step"].groupby(by).diff().fillna(0)
    area = (flow * passed).groupby(by).cumsum()
    columns = [table[name] for name in ("R", "C", "time_step", "u_in", "u_out")]
    columns += [area, area / table["C"], flow * table["R"], area * table["R"], flow.groupby(by).cumsum()]
    for step in (1, 2, 3, 4, 6, 9):
        earlier = flow.groupby(by).shift(step).fillna(0)
        columns += [earlier, flow - earlier]
    columns += [flow.groupby(by).shift(-1).fillna(0), flow.groupby(by).transform("max")]
    for span in (3, 8, 20):
        mean = flow.groupby(by).transform(lambda values, span=span: values.ewm(span=span).mean())
        columns += [mean, mean * table["R"], (mean * passed).groupby(by).cumsum() / table["C"]]
    return np.column_stack(columns)


# Positions of receivers: smartphone-decimeter-2022


def positions(public: Path) -> pd.DataFrame:
    """Drop fixes with a poor signal, smooth the others, and correct the offset of each phone model."""
    off: dict[str, list[np.ndarray]] = {}
    for path in sorted(public.glob("train/*/*/device_gnss.csv")):
        truth = pd.read_csv(path.with_name("ground_truth.csv")).set_index("UnixTimeMillis")
        truth = truth[["LatitudeDegrees", "LongitudeDegrees"]]
        off.setdefault(path.parent.name, []).append((truth - _smooth_fixes(path)).dropna().to_numpy())
    everywhere = np.median(np.concatenate([rows for own in off.values() for rows in own]), axis=0)
    fixes = {}
    for path in sorted(public.glob("test/*/*/device_gnss.csv")):
        own = off.get(path.parent.name)
        error = everywhere if own is None else np.median(np.concatenate(own), axis=0)
        fixes[f"{path.parent.parent.name}-{path.parent.name}"] = _smooth_fixes(path) + error
    sample = pd.read_csv(public / "sample_submission.csv")
    rows = pd.MultiIndex.from_frame(sample[["tripId", "UnixTimeMillis"]])
    found = pd.concat(fixes)
    found = found[~found.index.duplicated()].reindex(rows).groupby(level=0).transform(lambda c: c.ffill().bfill())
    return sample.assign(**{name: found[name].to_numpy() for name in found})


def _smooth_fixes(path: Path) -> pd.DataFrame:
    rows = pd.read_csv(path).groupby("utcTimeMillis").mean(numeric_only=True)
    x, y, z = (rows[f"WlsPosition{axis}EcefMeters"].to_numpy() for axis in "XYZ")
    flat, level = 6.69437999014e-3, np.hypot(x, y)
    latitude = np.arctan2(z, level * (1 - flat))
    for _ in range(5):
        radius = 6378137 / np.sqrt(1 - flat * np.sin(latitude) ** 2)
        latitude = np.arctan2(z + flat * radius * np.sin(latitude), level)
    table = pd.DataFrame(
        {"LatitudeDegrees": np.rad2deg(latitude), "LongitudeDegrees": np.rad2deg(np.arctan2(y, x))}, rows.index
    )
    strength = rows["Cn0DbHz"]
    table[strength < strength.median() - 6] = np.nan
    table = table.interpolate(limit_direction="both")
    jump = (table - median_filter(table.to_numpy(), (7, 1))).abs().max(axis=1)
    table[jump > 15 / 111_200] = np.nan
    table = table.interpolate(limit_direction="both")
    return pd.DataFrame(gaussian_filter1d(table.to_numpy(), 2, axis=0), table.index, table.columns)


# Series along molecules: stanford-covid-vaccine


def degradation(public: Path) -> pd.DataFrame:
    """Predict degradation from each base, its loop type, its neighbours and its paired base."""
    train = pd.read_json(public / "train.json", lines=True)
    test = pd.read_json(public / "test.json", lines=True)
    sample = pd.read_csv(public / "sample_submission.csv")
    x = np.concatenate([_bases(row)[: row["seq_scored"]] for _, row in train.iterrows()])
    weights = np.repeat(np.log1p(train["signal_to_noise"].clip(lower=0.1)), train["seq_scored"])
    asked = np.concatenate([_bases(row) for _, row in test.iterrows()])
    ids = [f"{row['id']}_{k}" for _, row in test.iterrows() for k in range(row["seq_length"])]
    found = pd.DataFrame(index=ids)
    for name in sample.columns[1:]:
        model = HistGradientBoostingRegressor(max_iter=150, learning_rate=0.1, max_leaf_nodes=15, random_state=0)
        found[name] = model.fit(x, np.concatenate(train[name].to_numpy()), weights).predict(asked)
    return found.loc[sample["id_seqpos"]].rename_axis("id_seqpos").reset_index()


def _bases(molecule: pd.Series) -> np.ndarray:
    partner, opened = list(range(len(molecule["structure"]))), []
    for place, mark in enumerate(molecule["structure"]):
        if mark == "(":
            opened.append(place)
        elif mark == ")":
            partner[place] = opened.pop()
            partner[partner[place]] = place
    base = np.array(["GAUC".index(letter) for letter in molecule["sequence"]])
    loop = np.array(["SHEBIMX".index(letter) for letter in molecule["predicted_loop_type"]])
    flags = np.column_stack([*(base == k for k in range(4)), *(loop == k for k in range(7))]).astype(float)
    near = [np.roll(flags, step, axis=0) for step in (-2, -1, 0, 1, 2)]
    around = [gaussian_filter1d(flags, width, axis=0) for width in (2, 5)]
    return np.hstack([*near, *around, flags[partner][:, :4], np.arange(len(base))[:, None]])


# Sounds: freesound-audio-tagging-2019


def tags(public: Path) -> pd.DataFrame:
    """Classify sounds by the level of each band and how it varies. Noisy labels weigh less than curated ones."""
    sample = pd.read_csv(public / "sample_submission.csv")
    classes, x, y, weights = list(sample.columns[1:]), [], [], []
    for part, weight in (("curated", 1.0), ("noisy", 0.35)):
        table = pd.read_csv(public / f"train_{part}.csv")
        x += [_spectrum(public / f"train_{part}" / name) for name in table["fname"]]
        y.append(table["labels"].str.get_dummies(",").reindex(columns=classes, fill_value=0).to_numpy())
        weights += [weight] * len(table)
    known, asked, truth = (
        np.stack(x),
        np.stack([_spectrum(public / "test" / name) for name in sample["fname"]]),
        np.concatenate(y),
    )
    scale = StandardScaler().fit(known)
    known, asked = scale.transform(known), scale.transform(asked)
    for k in np.flatnonzero(truth.sum(axis=0)):
        models = (
            LogisticRegression(C=0.02, max_iter=300),
            ExtraTreesClassifier(150, class_weight="balanced", random_state=0),
        )
        sample[classes[k]] = sum(model.fit(known, truth[:, k], weights).predict_proba(asked)[:, 1] for model in models)
    return sample


def _spectrum(path: Path) -> np.ndarray:
    sound, rate = soundfile.read(path)
    size, hop = 4096, 512
    sound = np.pad(sound, (0, max(0, size + hop - len(sound)))) / (sound.std() + 1e-9)
    frames = np.lib.stride_tricks.sliding_window_view(sound, size)[::hop] * np.hanning(size)
    power = np.abs(np.fft.rfft(frames, axis=1)) ** 2
    edges = np.unique(np.rint(np.geomspace(80, 12000, 65) / rate * size).astype(int))
    logs = np.log(np.add.reduceat(power[:, : edges[-1]], edges[:-1], axis=1) / np.diff(edges) + 1e-3)
    pulse = np.abs(np.fft.rfft(logs.mean(axis=1) - logs.mean(), 128))[1:25] / len(logs)
    return np.concatenate([logs.mean(axis=0), logs.std(axis=0), pulse])
