"""Solvers for tabular competitions: trips, sales, players, passengers and molecules."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import matthews_corrcoef
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

# Trips: new-york-city-taxi-fare-prediction


def fares(public: Path) -> pd.DataFrame:
    """Predict fares from straight-line and street-grid distances, places, time of day, day of week, month and year."""
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


# Recommendations: h-and-m-personalized-fashion-recommendations


def fashion(public: Path) -> pd.DataFrame:
    """Recommend earlier purchases, and popular articles of the types and colours that the customer buys."""
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
    names = articles["article_id"].str.lstrip("0").to_numpy()  # the format of the transactions
    return sample.assign(prediction=[" ".join(names[row[:12]]) for row in (-score).argsort(axis=1)])


# Pairs of players: nfl-player-contact-detection


def contacts(public: Path) -> pd.DataFrame:
    """Predict contacts from the distance, closing speed, teams and individual movement of two players."""
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


# Passengers: spaceship-titanic


def passengers(public: Path) -> pd.DataFrame:
    """Predict from personal data, cabin and spending, and from the outcomes of others in the passenger's group."""
    train, test = (pd.read_csv(public / f"{part}.csv") for part in ("train", "test"))
    table = _passengers(pd.concat([train, test], ignore_index=True))
    x = pd.get_dummies(table, columns=["HomePlanet", "CryoSleep", "Destination", "deck", "side"]).astype(float)
    for home in range(3):
        for asleep in range(2):
            x[f"{home} {asleep}"] = x[f"CryoSleep_{asleep}"] * x[f"HomePlanet_{home}"]
    x["child"], x["bend"] = x["Age"] < 13, x["Age"] ** 2
    x = x.fillna(x.median())
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=500))
    model.fit(x[: len(train)], train["Transported"])
    return test[["PassengerId"]].assign(Transported=model.predict(x[len(train) :]))


def _passengers(table: pd.DataFrame) -> pd.DataFrame:
    cabin, group = table["Cabin"].str.split("/", expand=True), table["PassengerId"].str.partition("_")[0]
    kinds = table[["HomePlanet", "CryoSleep", "Destination", "VIP"]].assign(deck=cabin[0], side=cabin[2])
    spent = table[["RoomService", "FoodCourt", "ShoppingMall", "Spa", "VRDeck"]].astype(float)
    made = pd.DataFrame({name: pd.factorize(kinds[name], sort=True)[0] for name in kinds})
    made = made.join(table[["Age"]]).join(spent.apply(np.log1p))
    made["spent"], made["size"] = np.log1p(spent.sum(axis=1)), group.map(group.value_counts())
    known = table["Transported"].astype(float)
    own = (known - known.mean()).fillna(0)
    return made.assign(together=own.groupby(group).transform("sum") - own)


# Enzymes and molecules: playground-series-s3e18


def enzymes(public: Path) -> pd.DataFrame:
    """Fit many small trees; each split considers only some of the columns."""
    train, test = (pd.read_csv(public / f"{part}.csv") for part in ("train", "test"))
    sample = pd.read_csv(public / "sample_submission.csv")
    known, asked = train[test.columns[1:]], test.set_index("id").loc[sample["id"]]
    for name in sample.columns[1:]:
        model = HistGradientBoostingClassifier(
            learning_rate=0.03, max_iter=800, max_leaf_nodes=8, max_features=0.3, random_state=0
        )
        sample[name] = model.fit(known, train[name]).predict_proba(asked)[:, 1]
    return sample
