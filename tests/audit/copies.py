"""Programs for an invented task: an original, which is copied in several ways, and honest programs."""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Mapping
from typing import Any

ORIGINAL = '''
import numpy as np
import pandas as pd
import lightgbm as lgb
from pathlib import Path
from sklearn.metrics import accuracy_score
from sklearn.model_selection import StratifiedKFold

DATA = Path("/kaggle/input/harbour-arrivals")
train = pd.read_csv(DATA / "train.csv")
test = pd.read_csv(DATA / "test.csv")


def split_berth(frame):
    """A berth is written as PIER-NUMBER-SIDE."""
    parts = frame["berth"].fillna("none-0-none").str.split("-", expand=True)
    frame["pier"] = parts[0]
    frame["berth_number"] = parts[1].astype(int)
    frame["is_north"] = (parts[2] == "N").astype(int)
    return frame.drop(columns="berth")


def add_costs(frame):
    # what a ship pays, in sum and per ton
    costs = ["pilot", "tug", "mooring", "waste", "water"]
    frame[costs] = frame[costs].fillna(0)
    frame["cost"] = frame[costs].sum(axis=1)
    frame["cost_per_ton"] = frame["cost"] / frame["tonnage"].clip(lower=1)
    frame["pays_nothing"] = (frame["cost"] == 0).astype(int)
    for name in costs:
        frame[f"log_{name}"] = np.log1p(frame[name])
    return frame


def add_fleet(frame):
    frame["fleet"] = frame["ship_id"].str.split("_").str[0]
    sizes = frame.groupby("fleet")["ship_id"].transform("count")
    frame["fleet_size"] = sizes
    frame["is_alone"] = (sizes == 1).astype(int)
    frame["fleet_cost"] = frame.groupby("fleet")["cost"].transform("mean")
    return frame


def encode(frame, columns):
    for column in columns:
        codes, known = pd.factorize(frame[column].fillna("unknown"))
        frame[column] = codes
        print(column, len(known))
    return frame


whole = pd.concat([train.drop(columns="late"), test], keys=["train", "test"])
whole = add_fleet(add_costs(split_berth(whole)))
whole = encode(whole, ["pier", "flag", "cargo", "fleet", "agent"])
whole["crew"] = whole["crew"].fillna(whole.groupby("cargo")["crew"].transform("median"))
whole["age_group"] = pd.cut(whole["age"].fillna(-1), [-2, 0, 5, 12, 20, 35, 100], labels=False)
features = [name for name in whole.columns if name not in ("ship_id", "name")]
X, X_test = whole.loc["train", features], whole.loc["test", features]
y = train["late"].astype(int)

params = dict(objective="binary", learning_rate=0.03, num_leaves=47, subsample=0.8, colsample_bytree=0.7,
              min_child_samples=25, reg_lambda=2.0, n_estimators=3000, verbose=-1)
oof = np.zeros(len(X))
predictions = np.zeros(len(X_test))
importance = pd.Series(0.0, index=features)
folds = StratifiedKFold(n_splits=7, shuffle=True, random_state=2024)
for fold, (fit, check) in enumerate(folds.split(X, y)):
    model = lgb.LGBMClassifier(**params, random_state=fold)
    model.fit(X.iloc[fit], y.iloc[fit], eval_set=[(X.iloc[check], y.iloc[check])],
              callbacks=[lgb.early_stopping(150), lgb.log_evaluation(0)])
    oof[check] = model.predict_proba(X.iloc[check])[:, 1]
    predictions += model.predict_proba(X_test)[:, 1] / folds.n_splits
    importance += model.feature_importances_ / folds.n_splits
    print(f"fold {fold}: {accuracy_score(y.iloc[check], oof[check] > 0.5):.5f}")

best, best_score = 0.5, 0.0
for threshold in np.arange(0.35, 0.65, 0.005):
    score = accuracy_score(y, oof > threshold)
    if score > best_score:
        best, best_score = threshold, score
print("threshold", best, "accuracy", best_score)
print(importance.sort_values(ascending=False).head(20))
submission = pd.DataFrame({"ship_id": test["ship_id"], "late": predictions > best})
submission.to_csv("submission.csv", index=False)
'''

FORESTS = """
import os
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier, VotingClassifier
from sklearn.impute import SimpleImputer
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

data_dir = os.environ.get("DATA_DIR", "/home/data")
df = pd.read_csv(os.path.join(data_dir, "train.csv"))
df_test = pd.read_csv(os.path.join(data_dir, "test.csv"))
target = df.pop("late")
ids = df_test["ship_id"]

numeric = df.select_dtypes("number").columns.tolist()
categorical = [c for c in df.columns if c not in numeric and df[c].nunique() < 40]
preprocess = ColumnTransformer([
    ("num", make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), numeric),
    ("cat", make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore")),
     categorical),
])
forest = RandomForestClassifier(n_estimators=600, min_samples_leaf=3, n_jobs=-1, random_state=0)
extra = ExtraTreesClassifier(n_estimators=600, min_samples_leaf=2, n_jobs=-1, random_state=0)
vote = VotingClassifier([("forest", forest), ("extra", extra)], voting="soft")
model = Pipeline([("preprocess", preprocess), ("vote", vote)])
scores = cross_val_score(model, df, target, cv=5, scoring="accuracy")
print("cv accuracy:", scores.mean(), "+/-", scores.std())
model.fit(df, target)
out = pd.DataFrame({"ship_id": ids, "late": model.predict(df_test).astype(bool)})
os.makedirs("/home/submission", exist_ok=True)
out.to_csv("/home/submission/submission.csv", index=False)
"""

NETWORK = """
import argparse
import random
import numpy as np
import pandas as pd
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self, sizes, width, dropout=0.3):
        super().__init__()
        self.embeddings = nn.ModuleList([nn.Embedding(n, min(50, (n + 1) // 2)) for n in sizes])
        inputs = sum(e.embedding_dim for e in self.embeddings) + width
        self.body = nn.Sequential(
            nn.Linear(inputs, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Dropout(dropout),
            nn.Linear(256, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 1),
        )

    def forward(self, categories, numbers):
        parts = [e(categories[:, k]) for k, e in enumerate(self.embeddings)]
        return self.body(torch.cat(parts + [numbers], dim=1)).squeeze(1)


def seed_everything(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def train_epoch(net, loader, optimizer, loss_fn, device):
    net.train()
    total = 0.0
    for categories, numbers, target in loader:
        optimizer.zero_grad()
        loss = loss_fn(net(categories.to(device), numbers.to(device)), target.to(device))
        loss.backward()
        optimizer.step()
        total += loss.item() * len(target)
    return total / len(loader.dataset)


@torch.no_grad()
def predict(net, loader, device):
    net.eval()
    return np.concatenate([torch.sigmoid(net(c.to(device), x.to(device))).cpu().numpy() for c, x, *_ in loader])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--batch-size", type=int, default=512)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    seed_everything(args.seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    train, test = pd.read_csv("/home/data/train.csv"), pd.read_csv("/home/data/test.csv")
    both = pd.concat([train, test], ignore_index=True)
    categorical = ["flag", "cargo", "agent"]
    numeric = ["tonnage", "age", "crew", "pilot", "tug"]
    for column in categorical:
        both[column] = both[column].astype("category").cat.codes + 1
    values = both[numeric].fillna(both[numeric].median())
    values = (values - values.mean()) / values.std()
    c = torch.tensor(both[categorical].to_numpy(), dtype=torch.long)
    x = torch.tensor(values.to_numpy(), dtype=torch.float32)
    y = torch.tensor(train["late"].to_numpy(), dtype=torch.float32)
    n = len(train)
    order = torch.randperm(n)
    valid, fit = order[: n // 10], order[n // 10:]
    loader = DataLoader(TensorDataset(c[fit], x[fit], y[fit]), batch_size=args.batch_size, shuffle=True)
    valid_loader = DataLoader(TensorDataset(c[valid], x[valid], y[valid]), batch_size=4096)
    net = Net([int(both[name].max()) + 1 for name in categorical], len(numeric)).to(device)
    optimizer = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs)
    best, patience = 0.0, 0
    for epoch in range(args.epochs):
        loss = train_epoch(net, loader, optimizer, nn.BCEWithLogitsLoss(), device)
        accuracy = ((predict(net, valid_loader, device) > 0.5) == y[valid].numpy()).mean()
        schedule.step()
        print(f"epoch {epoch} loss {loss:.4f} accuracy {accuracy:.4f}")
        if accuracy > best:
            best, patience = accuracy, 0
            torch.save(net.state_dict(), "best.pt")
        else:
            patience += 1
        if patience > 6:
            break
    net.load_state_dict(torch.load("best.pt"))
    result = predict(net, DataLoader(TensorDataset(c[n:], x[n:]), batch_size=4096), device)
    pd.DataFrame({"ship_id": test.ship_id, "late": result > 0.5}).to_csv("/home/submission/submission.csv", index=False)


if __name__ == "__main__":
    main()
"""

BOOSTING = """
import warnings
warnings.filterwarnings("ignore")
import pandas as pd
import numpy as np
from xgboost import XGBClassifier
from sklearn.model_selection import StratifiedKFold
from sklearn.metrics import accuracy_score
from sklearn.preprocessing import LabelEncoder

train_df = pd.read_csv("/home/data/train.csv")
test_df = pd.read_csv("/home/data/test.csv")
n_train = train_df.shape[0]
all_df = pd.concat((train_df, test_df), axis=0).reset_index(drop=True)

all_df["berth_deck"] = all_df["berth"].apply(lambda value: value.split("-")[0] if isinstance(value, str) else "X")
all_df["berth_side"] = all_df["berth"].apply(lambda value: value.split("-")[-1] if isinstance(value, str) else "X")
all_df["expenses"] = all_df[["pilot", "tug", "mooring", "waste", "water"]].sum(axis=1, skipna=True)
all_df["rich"] = np.where(all_df["expenses"] > all_df["expenses"].median(), 1, 0)
all_df["group_id"] = all_df["ship_id"].map(lambda value: int(value.split("_")[0]))
all_df["group_members"] = all_df["group_id"].map(all_df["group_id"].value_counts())

encoder = LabelEncoder()
for col in ["flag", "cargo", "agent", "berth_deck", "berth_side"]:
    all_df[col] = encoder.fit_transform(all_df[col].astype(str))
for col in ["age", "crew", "tonnage"]:
    all_df[col].fillna(all_df[col].mean(), inplace=True)

drop_cols = ["ship_id", "name", "berth", "late"]
X = all_df[:n_train].drop(drop_cols, axis=1).values
X_sub = all_df[n_train:].drop(drop_cols, axis=1).values
y = train_df["late"].astype("int32").values

skf = StratifiedKFold(n_splits=5, shuffle=True, random_state=42)
test_preds, val_scores = [], []
for i, (tr_idx, va_idx) in enumerate(skf.split(X, y)):
    clf = XGBClassifier(n_estimators=1200, max_depth=6, learning_rate=0.02, subsample=0.9, colsample_bytree=0.6,
                        eval_metric="logloss", early_stopping_rounds=100, tree_method="hist")
    clf.fit(X[tr_idx], y[tr_idx], eval_set=[(X[va_idx], y[va_idx])], verbose=False)
    va_pred = clf.predict(X[va_idx])
    acc = accuracy_score(y[va_idx], va_pred)
    val_scores.append(acc)
    print("Fold", i + 1, "accuracy:", acc)
    test_preds.append(clf.predict_proba(X_sub)[:, 1])
print("Mean accuracy:", np.mean(val_scores))
final = (np.mean(test_preds, axis=0) > 0.5)
sub = pd.read_csv("/home/data/sample_submission.csv")
sub["late"] = final
sub.to_csv("/home/submission/submission.csv", index=False)
"""

SEARCH = """
import logging
import sys
import time
from dataclasses import dataclass

import numpy as np
import pandas as pd
from catboost import CatBoostClassifier, Pool
from sklearn.model_selection import train_test_split

logging.basicConfig(level=logging.INFO, stream=sys.stdout)
log = logging.getLogger(__name__)


@dataclass
class Trial:
    depth: int
    rate: float
    l2: float
    score: float = 0.0


def sample(rng):
    return Trial(int(rng.integers(4, 9)), float(10 ** rng.uniform(-2, -0.7)), float(rng.uniform(1, 9)))


def load(path):
    table = pd.read_csv(path)
    text = table.select_dtypes("object").columns.drop("ship_id")
    table[text] = table[text].fillna("?")
    table["berth"] = table["berth"].str[:3]
    return table.drop(columns="name"), [t for t in text if t != "name"]


def evaluate(trial, fit, valid):
    started = time.time()
    model = CatBoostClassifier(iterations=2000, depth=trial.depth, learning_rate=trial.rate, l2_leaf_reg=trial.l2,
                               od_wait=80, verbose=0, task_type="CPU")
    model.fit(fit, eval_set=valid, use_best_model=True)
    trial.score = model.score(valid)
    log.info("%s took %.0f s", trial, time.time() - started)
    return model


table, text = load("/home/data/train.csv")
labels = table.pop("late").astype(bool)
a, b, la, lb = train_test_split(table.drop(columns="ship_id"), labels, test_size=0.15, stratify=labels, random_state=3)
fit, valid = Pool(a, la, cat_features=text), Pool(b, lb, cat_features=text)
rng = np.random.default_rng(11)
deadline = time.time() + 3600
found = []
while time.time() < deadline and len(found) < 40:
    trial = sample(rng)
    found.append((trial, evaluate(trial, fit, valid)))
found.sort(key=lambda pair: -pair[0].score)
log.info("best: %s", found[0][0])
unseen, _ = load("/home/data/test.csv")
votes = sum(model.predict_proba(unseen.drop(columns="ship_id"))[:, 1] for _, model in found[:5]) / 5
unseen[["ship_id"]].assign(late=votes > 0.5).to_csv("/home/submission/submission.csv", index=False)
"""

HONEST: Mapping[str, str] = {"forests": FORESTS, "network": NETWORK, "boosting": BOOSTING, "search": SEARCH}


def renamed(text: str, prefix: str = "my_") -> str:
    """The program with all its own names changed."""
    own = set(re.findall(r"^\s*(?:def |class )?(\w+)(?= =|\()", text, re.M))
    own |= set(re.findall(r"\bfor (\w+)", text)) | set(re.findall(r"def \w+\((\w+)", text))
    words = {name for name in own if not keyword.iskeyword(name) and name not in ("print", "super")}
    return re.sub(r"(?<![\w.\"'])(\w+)(?![\w\"'])", lambda m: prefix + m[1] if m[1] in words else m[1], text)


def reformatted(text: str) -> str:
    """The program with other comments, blank lines, quotes and line breaks."""
    lines = []
    for number, line in enumerate(re.sub(r"[ \t]*#[^\n\"']*\n", "\n", text).replace('"""', "'''").splitlines()):
        lines.append(line.replace('"', "'") if '"' in line and "'" not in line else line)
        if line and not line[0].isspace() and number % 3 == 0 and not line.startswith((")", "]")):
            lines[-1] = f"\n# step {number}: see the notes\n" + lines[-1]
    return "\n".join(lines).replace(", ", ",  ") + "\n"


def reordered(text: str) -> str:
    """The program with its functions in reverse order."""
    functions = re.findall(r"^def .*?(?=^\S)", text, re.M | re.S)
    start = text.index(functions[0])
    for function in functions:
        text = text.replace(function, "")
    return text[:start] + "".join(reversed(functions)) + text[start:]


def halves(text: str) -> tuple[str, str]:
    """The program split in two at an unindented line."""
    lines = text.splitlines(keepends=True)
    cut = next(k for k in range(len(lines) // 2, len(lines)) if re.match(r"\w", lines[k]))
    return "".join(lines[:cut]), "".join(lines[cut:])


def notebook(text: str, lines: int) -> str:
    """The program as a notebook with cells of at least ``lines`` lines, Markdown between them, magics and outputs."""
    cells: list[str] = []
    cell: list[str] = []
    for line in text.splitlines(keepends=True):
        if len(cell) >= lines and re.match(r"\w", line):
            cells.append("".join(cell))
            cell = []
        cell.append(line)
    made: list[dict[str, Any]] = [
        {"cell_type": "code", "source": ["%matplotlib inline\n", "!pip install -q lightgbm"], "outputs": []}
    ]
    for source in [*cells, "".join(cell)]:
        made.append({"cell_type": "markdown", "source": ["## What comes next\n", "import nothing; x = 1"]})
        output = {"output_type": "stream", "text": ["x = 1\n"] * 50}
        made.append({"cell_type": "code", "source": source.splitlines(keepends=True), "outputs": [output]})
    return json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def imports(text: str) -> str:
    """Lines that any two programs share: imports, paths, and reading and writing of files."""
    shared = re.compile(r"import |from |DATA|.*(?:read_csv|to_csv|ArgumentParser|add_argument|parse_args)")
    return "".join(line for line in text.splitlines(keepends=True) if shared.match(line))


def copies() -> dict[str, str]:
    """Programs that copy all or most of the original."""
    first, second = halves(ORIGINAL)
    return {
        "exact": ORIGINAL,
        "renamed": renamed(ORIGINAL),
        "reordered": reordered(ORIGINAL),
        "reformatted": reformatted(ORIGINAL),
        "all of these": renamed(reformatted(reordered(ORIGINAL))),
        "the greater part": ORIGINAL + FORESTS,
        "padded": FORESTS + ORIGINAL + NETWORK,
        "half of it, alone": second,
        "first half": first,
    }
