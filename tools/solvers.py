"""A solver for each family of twins: it knows the kind of problem, and nothing of the world behind a twin.

python -m tools.solvers ID PUBLIC SUBMISSION

Each reads the public files of the competition that stands for its family, and returns a submission. It may choose
features and models as one would after reading the description; what numbers the seed drew, only the files can tell it.
How much better than the bundled baseline such a solver is says how much room a generalist leaves.
"""

from __future__ import annotations

import json
import re
import sys
import zipfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pydicom
from PIL import Image
from scipy.fft import dctn
from scipy.ndimage import find_objects, gaussian_filter, gaussian_filter1d, label, median_filter
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.feature_extraction import DictVectorizer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge, RidgeCV
from sklearn.metrics import matthews_corrcoef
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler
from sklearn.svm import SVC

# Tracks of particles: icecube-neutrinos-in-deep-ice


def neutrinos(public: Path) -> pd.DataFrame:
    """A line through the pulses of each event, and a linear map from such lines to labels."""
    meta = pd.read_parquet(public / "train_meta.parquet").set_index("event_id")
    sample = pd.read_csv(public / "sample_submission.csv")
    train, test = _tracks(public, "train"), _tracks(public, "test").loc[sample["event_id"]]
    azimuth, zenith = meta.loc[train.index, ["azimuth", "zenith"]].to_numpy().T
    ways = np.column_stack([np.cos(azimuth) * np.sin(zenith), np.sin(azimuth) * np.sin(zenith), np.cos(zenith)])
    turn = np.linalg.lstsq(train.to_numpy(), ways, rcond=None)[0]
    x, y, z = (test.to_numpy() @ turn).T
    return sample.assign(azimuth=np.arctan2(y, x) % (2 * np.pi), zenith=np.arctan2(np.hypot(x, y), z))


def _tracks(public: Path, part: str) -> pd.DataFrame:
    """For each event the direction in which light moves, from all pulses, clean ones, and those near the line."""
    pulses = pd.concat(pd.read_parquet(path) for path in sorted((public / part).glob("*.parquet")))
    places = pd.read_csv(public / "sensor_geometry.csv").set_index("sensor_id").loc[pulses["sensor_id"]].to_numpy()
    ids, event = np.unique(pulses.index, return_inverse=True)
    clean, found = ~pulses["auxiliary"].to_numpy(bool), []
    weights = np.where(clean, 1.0, 0.02)
    for _ in range(8):
        total = np.bincount(event, weights)
        table = np.column_stack([places, pulses["time"]])
        means = np.stack([np.bincount(event, weights * column) / total for column in table.T], axis=1)
        *space, time = (table - means[event]).T
        speed = np.stack([np.bincount(event, weights * time * axis) for axis in space], axis=1)
        speed = speed / (np.bincount(event, weights * time**2)[:, None] + 1e-9)
        away = np.linalg.norm(np.stack(space, axis=1) - speed[event] * time[:, None], axis=1)
        found.append(speed / (np.linalg.norm(speed, axis=1, keepdims=True) + 1e-9))
        weights = np.where(clean, 1.0, 0.1) / (1 + (away / 60) ** 2)
    return pd.DataFrame(np.hstack([found[0], found[2], found[-1]]), index=ids)


# Positions of receivers: smartphone-decimeter-2022


def positions(public: Path) -> pd.DataFrame:
    """Fixes without those of poor signal, smoothed, and moved by what each kind of phone is off."""
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
    return table.interpolate(limit_direction="both").apply(lambda column: gaussian_filter1d(column, 2))


# Series along molecules: stanford-covid-vaccine


def degradation(public: Path) -> pd.DataFrame:
    """Each base by itself, its loop, its neighbours, and the base that it is paired with."""
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


# Recommendations: h-and-m-personalized-fashion-recommendations


def fashion(public: Path) -> pd.DataFrame:
    """What a customer bought before, and what sells now of the kinds and colours that the customer buys."""
    sales = pd.read_csv(public / "transactions_train.csv", dtype={"article_id": str}, parse_dates=["t_dat"])
    sales["article_id"] = sales["article_id"].str.zfill(10)
    articles = pd.read_csv(public / "articles.csv", dtype={"article_id": str})
    articles["article_id"] = articles["article_id"].str.zfill(10)
    sample = pd.read_csv(public / "sample_submission.csv")
    age = (sales["t_dat"].max() - sales["t_dat"]).dt.days.to_numpy()
    who = pd.Index(sample["customer_id"]).get_indexer(sales["customer_id"])
    what = pd.Index(articles["article_id"]).get_indexer(sales["article_id"])
    who, what, age = (column[(who >= 0) & (what >= 0)] for column in (who, what, age))
    popular = np.bincount(what, np.exp(-age / 7), len(articles)) + 1e-3
    score = np.tile(popular / popular.sum(), (len(sample), 1))
    for name in ("product_type_no", "colour_group_code"):
        kinds = np.unique(articles[name], return_inverse=True)[1]
        bought = np.zeros((len(sample), kinds.max() + 1))
        np.add.at(bought, (who, kinds[what]), 1)
        usual = np.bincount(kinds, popular) / popular.sum()
        taste = (bought + 1.5 * usual) / (bought.sum(axis=1, keepdims=True) + 1.5)
        score *= (taste / usual)[:, kinds]
    score /= score.sum(axis=1, keepdims=True)
    again = np.zeros_like(score)
    np.add.at(again, (who, what), np.exp(-age / 20))
    score += again / (again.sum(axis=1, keepdims=True) + 1)
    names = articles["article_id"].str.lstrip("0").to_numpy()  # as the transactions write them
    return sample.assign(prediction=[" ".join(names[row[:12]]) for row in (-score).argsort(axis=1)])


# Pairs of players: nfl-player-contact-detection


def contacts(public: Path) -> pd.DataFrame:
    """Distance, approach and teams of two players at the time, and how fast each of them moves."""
    train, sample = pd.read_csv(public / "train_labels.csv"), pd.read_csv(public / "sample_submission.csv")
    x, test = _pairs(public, "train", train["contact_id"]), _pairs(public, "test", sample["contact_id"])
    y, held = train["contact"].to_numpy(), pd.factorize(train["contact_id"].str[:12])[0] % 4 == 0
    model = HistGradientBoostingClassifier(max_iter=150, learning_rate=0.08, max_leaf_nodes=15, random_state=0)
    p = model.fit(x[~held], y[~held]).predict_proba(x[held])[:, 1]
    level = max(np.linspace(0.1, 0.8, 29), key=lambda level: matthews_corrcoef(y[held], p > level))
    return sample.assign(contact=(model.fit(x, y).predict_proba(test)[:, 1] > level).astype(int))


def _pairs(public: Path, part: str, ids: pd.Series) -> np.ndarray:
    keys = ids.str.extract(r"(?P<game_play>\d+_\d+)_(?P<step>\d+)_(?P<one>\w+)_(?P<two>\w+)")
    seen = pd.read_csv(public / f"{part}_player_tracking.csv").astype({"nfl_player_id": str, "step": str})
    helmets = pd.read_csv(public / f"{part}_baseline_helmets.csv").astype({"nfl_player_id": str})
    helmets["step"] = ((helmets["frame"] - 300) // 6).astype(str)
    boxes = helmets.groupby(["game_play", "step", "nfl_player_id"])[["left", "width", "top", "height"]].mean()
    seen = seen.join(boxes, on=["game_play", "step", "nfl_player_id"]).set_index(["game_play", "step", "nfl_player_id"])
    one, two = (seen.reindex(pd.MultiIndex.from_frame(keys[["game_play", "step", who]])) for who in ("one", "two"))
    way = [np.deg2rad(side["direction"].to_numpy()) for side in (one, two)]
    east, north = (one[f"{axis}_position"].to_numpy() - two[f"{axis}_position"].to_numpy() for axis in "xy")
    moves = [
        [side["speed"].to_numpy() * turn(angle) for turn in (np.sin, np.cos)]
        for side, angle in zip((one, two), way, strict=True)
    ]
    away = np.hypot(east, north)
    closing = -(east * (moves[0][0] - moves[1][0]) + north * (moves[0][1] - moves[1][1])) / np.maximum(away, 0.3)
    own = ["speed", "acceleration", "sa", "width", "top", "height"]
    same = (one["team"].to_numpy() == two["team"].to_numpy()).astype(float)
    return np.column_stack([away, closing, same, keys["two"] == "G", one[own], two[own], keys["step"]]).astype(float)


# Series to series: ventilator-pressure-prediction


def breaths(public: Path) -> pd.DataFrame:
    """What flowed in so far, how fast it changed, and what lies ahead, for each kind of lung."""
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


# Trips: new-york-city-taxi-fare-prediction


def fares(public: Path) -> pd.DataFrame:
    """Distances as the crow flies and along streets of any direction, places, and the time of day, week and year."""
    train, test = pd.read_csv(public / "labels.csv"), pd.read_csv(public / "test.csv")
    x, asked, fare = _rides(train), _rides(test), train["fare_amount"].clip(2.5, 100)
    models = [
        HistGradientBoostingRegressor(
            learning_rate=0.05,
            max_iter=250,
            max_leaf_nodes=24,
            min_samples_leaf=30,
            max_features=0.4,
            random_state=seed,
        )
        for seed in range(4)
    ]
    guess = np.mean([model.fit(x, fare).predict(asked) for model in models], axis=0)
    return test[["key"]].assign(fare_amount=guess)


def _rides(table: pd.DataFrame) -> np.ndarray:
    kilometres = np.array([111.2 * np.cos(np.deg2rad(40.75)), 111.2])
    names = [[f"{end}_longitude", f"{end}_latitude"] for end in ("pickup", "dropoff")]
    start, end = ((table[pair].to_numpy() - [-73.98, 40.75]) * kilometres for pair in names)
    known = (np.abs(np.hstack([start, end])) < 200).all(axis=1)
    start[~known], end[~known] = np.nan, np.nan
    when, gap = pd.to_datetime(table["pickup_datetime"].str[:19]), end - start
    angles = np.deg2rad(np.arange(0, 90, 10))
    streets = [np.abs(gap @ [np.cos(a), np.sin(a)]) + np.abs(gap @ [-np.sin(a), np.cos(a)]) for a in angles]
    months = when.dt.year * 12 + when.dt.month
    columns = [np.hypot(*gap.T), *streets, start, end, gap, when.dt.hour, when.dt.day_of_week, months]
    columns += [when.dt.day_of_week < 5, when.dt.hour + 24 * (when.dt.day_of_week < 5), table["passenger_count"]]
    return np.column_stack(columns).astype(float)


# Measurements of many classes: leaf-classification


def leaves(public: Path) -> pd.DataFrame:
    """Logarithms of the measurements, and the outline of the picture; classes differ by their means alone."""
    train, test = (pd.read_csv(public / f"{part}.csv") for part in ("train", "test"))
    sample = pd.read_csv(public / "sample_submission.csv")
    x, asked = (np.log(table.filter(regex=r"^(margin|shape|texture)\d") + 1e-4) for table in (train, test))
    x, asked = (
        np.hstack([values, [_outline(public / "images" / f"{id}.jpg") for id in table["id"]]])
        for values, table in ((x, train), (asked, test))
    )
    model = make_pipeline(StandardScaler(), LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1))
    model.fit(x, train["species"])
    p = pd.DataFrame(model.predict_proba(asked), columns=model.classes_).reindex(columns=sample.columns[1:])
    p = 0.97 * p + 0.03 / p.shape[1]
    return pd.concat([test["id"], p], axis=1).set_index("id").loc[sample["id"]].reset_index()


def _outline(path: Path) -> np.ndarray:
    """How the distance of the edge from the middle changes with the direction, whichever way the leaf is turned."""
    y, x = np.nonzero(np.asarray(Image.open(path).convert("L")) > 128)
    y, x = y - y.mean(), x - x.mean()
    away, direction = np.hypot(x, y), ((np.arctan2(y, x) + np.pi) / (2 * np.pi) * 24).astype(int) % 24
    edge = np.array([away[direction == k].max(initial=0) for k in range(24)])
    return np.abs(np.fft.rfft(edge / edge.mean()))[1:8]


# Order: AI4Code


def notebooks(public: Path) -> pd.DataFrame:
    """Which code cell follows a text: by words they share, the words before these, and where such texts usually are."""
    orders = pd.read_csv(public / "train_orders.csv").set_index("id")["cell_order"].str.split()
    train = {id: _cells(public / "train" / f"{id}.json") for id in orders.index}
    sample = pd.read_csv(public / "sample_submission.csv")
    test = {id: _cells(public / "test" / f"{id}.json") for id in sample["id"]}
    known = [(id, *cells) for id, cells in train.items() if set(orders[id]) == {*cells[0], *cells[1]}]
    texts, places, x, y = [], [], [], []
    for id, codes, notes in known:
        rank = {cell: k for k, cell in enumerate(orders[id])}
        texts += notes.values()
        places += [np.mean([rank[code] < rank[note] for code in codes]) if codes else 0.5 for note in notes]
    words = make_pipeline(TfidfVectorizer(min_df=2), Ridge(2)).fit(texts or ["a a"], places or [0.5])
    for id, codes, notes in known:
        rank = {cell: k for k, cell in enumerate(orders[id])}
        for note, own in zip(notes, _choices(codes, notes, words), strict=True):
            x += own
            y += [place == sum(rank[code] < rank[note] for code in codes) for place in range(len(own))]
    if len(set(y)) < 2:
        return sample
    model = make_pipeline(DictVectorizer(), MaxAbsScaler(), LogisticRegression(C=3, max_iter=300)).fit(x, y)
    found = []
    for codes, notes in test.values():
        cells = [(k, 1, 0.0, code) for k, code in enumerate(codes)]
        for note, own, place in zip(
            notes, _choices(codes, notes, words), words.predict([*notes.values()]) if notes else [], strict=True
        ):
            cells.append((int(model.predict_proba(own)[:, 1].argmax()), 0, float(place), note))
        found.append(" ".join(cell for *_, cell in sorted(cells)))
    return sample.assign(cell_order=found)


def _cells(path: Path) -> tuple[dict[str, str], dict[str, str]]:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    cells = {kind: {} for kind in ("code", "markdown")}
    for cell, text in notebook["source"].items():
        cells[notebook["cell_type"][cell]][cell] = text
    return cells["code"], cells["markdown"]


def _choices(codes: dict[str, str], notes: dict[str, str], words: Pipeline) -> list[list[dict[str, float]]]:
    """For each text, what speaks for each place: before the first code cell, the second, ... or after the last."""
    said = [set(re.findall(r"\w+", code)) for code in codes.values()]
    usual = words.predict([*notes.values()]) if notes else []
    found = []
    for text, place in zip(notes.values(), usual, strict=True):
        heard = re.findall(r"\w+", text)
        own = []
        for k in range(len(said) + 1):
            off = k / max(len(said), 1) - place
            features = {"off": abs(off), "off²": off**2, "last": float(k == len(said)), "first": float(k == 0)}
            for before, word in zip(["", *heard], heard, strict=False):
                if k < len(said) and word in said[k]:
                    new = "again" if k and word in said[k - 1] else "new"
                    features[f"{new} after {before}"] = 1.0
                    features[new] = features.get(new, 0) + 1
            own.append(features)
        found.append(own)
    return found


# Hidden messages: alaska2-image-steganalysis


def messages(public: Path) -> pd.DataFrame:
    """Coefficients that are not zero, by frequency, against those of the same picture cut and compressed again."""
    folders = ["Cover", *sorted(p.name for p in public.iterdir() if p.is_dir() and p.name not in ("Cover", "Test"))]
    paths = [path for folder in folders for path in sorted((public / folder).glob("*.jpg"))]
    sample = pd.read_csv(public / "sample_submission.csv")
    x = np.stack([_coefficients(path) for path in paths])
    asked = np.stack([_coefficients(public / "Test" / name) for name in sample["Id"]])
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.02, max_iter=500))
    p = model.fit(x, [path.parent.name for path in paths]).predict_proba(asked)
    return sample.assign(Label=1 - p[:, list(model.classes_).index("Cover")])


def _coefficients(path: Path) -> np.ndarray:
    image = Image.open(path)
    steps = np.array(image.quantization[0]).reshape(8, 8)
    light = np.asarray(image.convert("YCbCr"), float)[..., 0] - 128
    counts = []
    for plane in (light, light[4:-4, 4:-4]):
        height, width = (side // 8 for side in plane.shape)
        blocks = plane[: 8 * height, : 8 * width].reshape(height, 8, width, 8).swapaxes(1, 2)
        values = np.abs(np.rint(dctn(blocks, axes=(2, 3), norm="ortho") / steps)).reshape(-1, 64)
        counts.append(np.log(np.stack([(values != 0).mean(axis=0), (values > 1).mean(axis=0)])[:, 1:] + 1e-3).ravel())
    return np.concatenate([counts[0] - counts[1], counts[0][:63], [np.log(steps.sum())]])


# Characters on pages: kuzushiji-recognition


def characters(public: Path) -> pd.DataFrame:
    """Pieces of connected ink, those cut that are as large as several characters, and a classifier of them."""
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
    """For each page the middle of each piece of ink, and how it looks."""
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


# Courses of illness: osic-pulmonary-fibrosis-progression


def lungs(public: Path) -> pd.DataFrame:
    """The slope after the first visit, from the person and the tissue in the scan; and how far off such slopes are."""
    table, first = pd.read_csv(public / "train.csv"), pd.read_csv(public / "test.csv").set_index("Patient")
    start = table.sort_values("Weeks").drop_duplicates("Patient").set_index("Patient")
    people = pd.concat([_person(start, public / "train"), _person(first, public / "test")], keys=["train", "test"])
    people = people.fillna(people.mean())
    later = table.merge(start[["Weeks", "FVC"]], left_on="Patient", right_index=True, suffixes=("", "_0"))
    later = later[later["Weeks"] > later["Weeks_0"]]
    weeks = (later["Weeks"] - later["Weeks_0"]).to_numpy()
    gone, x = (later["FVC"] - later["FVC_0"]).to_numpy(), people.loc["train"].loc[later["Patient"]].to_numpy()
    sample = pd.read_csv(public / "sample_submission.csv")
    keys = sample["Patient_Week"].str.extract(r"(?P<patient>.*)_(?P<week>-?\d+)")
    asked, known = people.loc["test"].loc[keys["patient"]].to_numpy(), first.loc[keys["patient"]]
    after = keys["week"].astype(int).to_numpy() - known["Weeks"].to_numpy()
    model = make_pipeline(StandardScaler(), RidgeCV(np.geomspace(1, 1e4, 9), fit_intercept=False))
    scaled = StandardScaler().fit(x)
    one = np.ones((len(scaled.mean_), 1))
    held = pd.factorize(later["Patient"])[0] % 5 == 0

    def terms(rows: np.ndarray, weeks: np.ndarray) -> np.ndarray:
        rows = np.hstack([np.ones((len(rows), 1)), scaled.transform(rows)])
        return np.hstack([rows * weeks[:, None] / 50, rows * weeks[:, None] ** 2 / 2500])

    model = RidgeCV(np.geomspace(0.1, 1e3, 9), fit_intercept=False)
    error = np.abs(model.fit(terms(x, weeks)[~held], gone[~held]).predict(terms(x, weeks)[held]) - gone[held])
    spread = np.sqrt(2) * np.polyval(np.polyfit(weeks[held], error, 1), np.abs(after))
    guess = known["FVC"].to_numpy() + model.fit(terms(x, weeks), gone).predict(terms(asked, after))
    return sample.assign(FVC=guess, Confidence=spread.clip(70))


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


# Missing words: billion-word-imputation


def gaps(public: Path) -> pd.DataFrame:
    """Two words that hardly ever meet, and the word that most often stands between such, if that is likely enough."""
    with zipfile.ZipFile(public / "train_v2.txt.zip") as archive:
        lines = archive.read("train_v2.txt").decode().splitlines()
    with zipfile.ZipFile(public / "test_v2.txt.zip") as archive:
        test = pd.read_csv(archive.open("test_v2.txt"))
    left: dict[str, Counter[str]] = defaultdict(Counter)
    right: dict[str, Counter[str]] = defaultdict(Counter)
    counts: Counter[str] = Counter()
    for line in lines:
        words = ["<s>", *line.split()]
        counts.update(words)
        for one, two in pairwise(words):
            left[one][two] += 1
            right[two][one] += 1
    total = sum(counts.values())

    def filled(text: str) -> str:
        words, best = ["<s>", *text.split()], (1.0, -1, "")
        everything = []
        for k, (one, two) in enumerate(pairwise(words)):
            met = left[one][two] + 0.02 * counts[two] * counts[one] / total + 0.01
            between = {w: n * right[two][w] / counts[w] for w, n in left[one].items() if w in right[two] and w != "<s>"}
            everything += [(value / met, k, word) for word, value in between.items()]
        if not everything:
            return text
        place, _ = max(
            pd.DataFrame(everything, columns=["value", "place", "word"]).groupby("place")["value"].sum().items(),
            key=lambda item: item[1],
        )
        word = max((value, word) for value, k, word in everything if k == place)[1]
        return " ".join([*words[1 : place + 1], word, *words[place + 1 :]])

    return test.assign(sentence=[filled(text) for text in test["sentence"]])


# Findings in scans: vinbigdata-chest-xray-abnormalities-detection


def findings(public: Path) -> pd.DataFrame:
    """Whether there is a finding of each class, and where: both from all pixels."""
    train, sample = pd.read_csv(public / "train.csv"), pd.read_csv(public / "sample_submission.csv")
    ids = train["image_id"].unique()
    x = np.stack([_scan(public / "train" / f"{id}.dicom") for id in ids])
    asked = np.stack([_scan(public / "test" / f"{id}.dicom") for id in sample["image_id"]])
    found: list[list[str]] = [[] for _ in asked]
    for kind, rows in train.groupby("class_id"):
        boxes = rows.groupby("image_id")[["x_min", "y_min", "x_max", "y_max"]].mean().reindex(ids)
        raters = (train.groupby("image_id")["rad_id"].nunique()).reindex(ids)
        share = (rows.groupby("image_id")["rad_id"].nunique().reindex(ids).fillna(0) / raters).to_numpy()
        chance = (
            ExtraTreesRegressor(200, min_samples_leaf=2, max_features=0.3, random_state=0).fit(x, share).predict(asked)
        )
        places = np.tile([0, 0, 1, 1], (len(asked), 1))
        if kind != 14:
            seen = share > 0
            model = ExtraTreesRegressor(100, max_features=0.3, random_state=0).fit(x[seen], boxes[seen])
            places = model.predict(asked)
        for own, p, box in zip(found, chance, places, strict=True):
            own.append(" ".join([f"{kind} {p:.4f}", *(f"{value:.1f}" for value in box)]))
    return sample.assign(PredictionString=[" ".join(own) for own in found])


def _scan(path: Path) -> np.ndarray:
    scan = pydicom.dcmread(path)
    pixels = scan.pixel_array.astype(float) * (-1 if scan.PhotometricInterpretation == "MONOCHROME1" else 1)
    pixels = (pixels - pixels.mean()) / (pixels.std() + 1e-6)
    return np.asarray(Image.fromarray(gaussian_filter(pixels, 1)).resize((24, 24))).ravel()


SOLVERS: dict[str, Callable[[Path], pd.DataFrame]] = {
    "icecube-neutrinos-in-deep-ice": neutrinos,
    "smartphone-decimeter-2022": positions,
    "stanford-covid-vaccine": degradation,
    "h-and-m-personalized-fashion-recommendations": fashion,
    "nfl-player-contact-detection": contacts,
    "ventilator-pressure-prediction": breaths,
    "new-york-city-taxi-fare-prediction": fares,
    "leaf-classification": leaves,
    "AI4Code": notebooks,
    "osic-pulmonary-fibrosis-progression": lungs,
    "billion-word-imputation": gaps,
    "vinbigdata-chest-xray-abnormalities-detection": findings,
    "alaska2-image-steganalysis": messages,
    "kuzushiji-recognition": characters,
}


def main() -> None:
    id, public, submission = sys.argv[1:]
    SOLVERS[id](Path(public)).to_csv(submission, index=False)


if __name__ == "__main__":
    main()
