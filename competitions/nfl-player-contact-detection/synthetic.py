from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.synthetic import first_value, standard

from .prepare import VIEWS

HEADERS = {
    "train_labels": "contact_id,game_play,datetime,step,nfl_player_id_1,nfl_player_id_2,contact",
    "sample_submission": "contact_id,contact",
    "baseline_helmets": "game_play,game_key,play_id,view,video,frame,nfl_player_id,player_label,left,width,top,height",
    "player_tracking": (
        "game_play,game_key,play_id,nfl_player_id,datetime,step,team,position,jersey_number,"
        "x_position,y_position,speed,distance,direction,orientation,acceleration,sa"
    ),
    "video_metadata": "game_play,game_key,play_id,view,start_time,end_time,snap_time",
}


def make(raw: Path, seed: int) -> None:
    make_games(raw, seed, 600)


def make_games(raw: Path, seed: int, games: int) -> None:
    """Write the data; the plays are from at most ``games`` games."""
    rng = np.random.default_rng(seed)
    n = 44
    plays = sorted({f"{rng.integers(58000, 58000 + games)}_{rng.integers(0, 5000):06d}" for _ in range(n + 3)})
    rng.shuffle(plays)
    labelled, unlabelled, test = plays[:-3], plays[-3:-2], plays[-2:]
    labels, sample = [], []
    tables: dict[str, list[tuple]] = {"baseline_helmets": [], "player_tracking": [], "video_metadata": []}
    for folder in ("train", "test"):
        (raw / folder).mkdir()
    for play in labelled + unlabelled + test:
        game_key, play_id = play.split("_")
        key = (play, game_key, int(play_id))
        players = sorted(int(player) for player in rng.choice(range(30000, 60000), 4, replace=False))
        has_helmets = rng.random() < 0.8
        for step in range(2):
            date = f"2020-{rng.integers(9, 13):02d}-{rng.integers(1, 29):02d}"
            clock = f"{rng.integers(17, 23)}:{rng.integers(10, 60)}:{rng.integers(10, 60)}.{rng.integers(0, 10)}00Z"
            time = f"{date}T{clock}"
            pairs = [(a, b) for k, a in enumerate(players) for b in [*players[k + 1 :], "G"]]
            for k in np.sort(rng.choice(len(pairs), rng.integers(3, 7), replace=False)):
                a, b = pairs[k]
                row = (f"{play}_{step}_{a}_{b}", play, time, step, a, b, int(rng.random() < 0.2))
                if play in labelled:
                    labels.append(row)
                elif play in test:
                    sample.append((row[0], 0))
            for player in players[:2]:
                kind = (rng.choice(["home", "away"]), rng.choice(["CB", "QB", "WR"]), rng.integers(1, 99))
                tables["player_tracking"].append((*key, player, time, step, *kind, *_sensors(rng)))
        for view in ("Endzone", "Sideline"):
            day, minute, second = rng.integers(1, 9), rng.integers(10, 60), rng.integers(1, 9)
            start = f"2020-10-0{day}T18:{minute}:0{second}.{rng.integers(100, 999)}Z"
            tables["video_metadata"].append((*key, view, start, start.replace("Z", "1Z"), start.replace("Z", "2Z")))
            for _ in range(rng.integers(1, 3) if has_helmets else 0):
                frame, player = rng.integers(1, 600), rng.choice(players)
                label = f"{rng.choice(['H', 'V'])}{rng.integers(1, 99):02d}"
                box = rng.integers(1, 1200, 4)
                tables["baseline_helmets"].append((*key, view, f"{play}_{view}.mp4", frame, player, label, *box))
        for view in VIEWS:
            (raw / ("test" if play in test else "train") / f"{play}_{view}.mp4").write_bytes(rng.bytes(8))

    _write(raw / "train_labels.csv", HEADERS["train_labels"], labels)
    _write(raw / "sample_submission.csv", HEADERS["sample_submission"], sample)
    for name, rows in tables.items():
        _write(raw / f"train_{name}.csv", HEADERS[name], (row for row in rows if row[0] not in test))
        _write(raw / f"test_{name}.csv", HEADERS[name], (row for row in rows if row[0] in test))


def _sensors(rng: np.random.Generator) -> list[str]:
    return [
        *(_number(rng, value) for value in rng.uniform(0, 100, 2)),
        *(_number(rng, value) for value in rng.gamma(1, 2, 2)),
        *(_number(rng, value) for value in rng.uniform(0, 360, 2)),
        *(_number(rng, value) for value in rng.normal(0, 2, 2)),
    ]


def _number(rng: np.random.Generator, value: float) -> str:
    """Format with two decimals, or sometimes all digits, of which default parsing can lose the last one."""
    u = rng.random()
    return "" if u < 0.03 else repr(float(value)) if u < 0.30 else f"{value:.2f}"


def _write(path: Path, header: str, rows: Iterable[tuple]) -> None:
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")


def submissions(public: Path, private: Path, rng: np.random.Generator) -> dict[str, Any]:
    answers = pd.read_csv(private / "test.csv")[["contact_id", "contact"]]
    n = len(answers)
    contact = answers["contact"]
    noisy = answers.assign(contact=np.where(rng.random(n) < 0.15, 1 - contact, contact))

    return {
        "random": answers.assign(contact=rng.integers(0, 2, n)),
        "inverted": answers.assign(contact=1 - contact),
        "all_ones": answers.assign(contact=1),
        "booleans": noisy.assign(contact=noisy["contact"].astype(bool)),
        "whole_floats": noisy.assign(contact=noisy["contact"].astype(float)),
        **first_value(noisy, "contact", third_value=7),
        "columns_swapped_and_extra": noisy.assign(game_play="x")[["contact", "game_play", "contact_id"]],
        "probabilities": noisy.assign(contact=0.1 + 0.7 * noisy["contact"]),
        "duplicate_for_missing": pd.concat([noisy.iloc[1:], noisy.tail(1)]),
        "missing_id_column": noisy[["contact"]],
        **standard(
            noisy,
            "contact_id",
            "58168_003392_0_38590_G",
            "contact",
            "missing_column all_text nan_prediction text_prediction",
            without="header_only",
        ),
    }
