from pathlib import Path

import numpy as np
import pandas as pd
from scipy.ndimage import gaussian_filter1d
from scipy.special import expit

from pytest_mlebench.authoring.worlds.labels import by_size
from pytest_mlebench.authoring.worlds.media import mp4

from .prepare import VIEWS
from .synthetic import HEADERS

TEAM, STEPS = 5, 14  # players of each side (in reality eleven), and tenths of a second
POSITIONS = ["CB", "QB", "WR", "T", "G", "DE"]


def make(raw: Path, rng: np.random.Generator, size: str) -> dict[str, pd.DataFrame]:
    n, plays = by_size(size, 12, 50, 100), by_size(size, 1, 4, 4)  # plays, and plays per game
    # the world: contact depends on distance, approach and sides; players who fall stop, and are low
    reach, closing, foes = rng.uniform(1.1, 1.6), rng.uniform(0.3, 0.7), rng.uniform(0.6, 1.4)
    names = [f"{58000 + k // plays}_{number:06d}" for k, number in enumerate(rng.permutation(5000)[:n])]
    rows: dict[str, list[tuple]] = {name: [] for name in HEADERS}
    guesses = []
    (raw / "train").mkdir()
    (raw / "test").mkdir()
    for name in rng.permutation(names).tolist():
        game, play = name.split("_")
        key = (name, game, int(play))
        players = np.sort(rng.choice(np.arange(30000, 60000), 2 * TEAM, replace=False)).tolist()
        side = rng.permutation(np.repeat([0, 1], TEAM))
        start = pd.Timestamp("2020-09-10 18:00") + pd.Timedelta(seconds=int(rng.integers(10_000_000)))
        times = [
            f"{time:%Y-%m-%dT%H:%M:%S.%f}"[:-3] + "Z" for time in start + pd.to_timedelta(np.arange(STEPS) / 10, "s")
        ]
        tracks, falls = _tracks(rng)
        move = np.diff(tracks, axis=0, prepend=tracks[:1]) * 10  # yards per second
        down = np.arange(STEPS)[:, None] >= falls
        numbers, jobs = rng.permutation(np.arange(1, 99))[: 2 * TEAM], rng.choice(POSITIONS, 2 * TEAM)
        for step in range(STEPS):
            for a in range(2 * TEAM):
                tables = _seen(rng, tracks[step, a], move[step, a], down[step, a])
                kind = (["home", "away"][side[a]], jobs[a], numbers[a])
                rows["player_tracking"].append((*key, players[a], times[step], step, *kind, *tables))
                label = f"{'HV'[side[a]]}{numbers[a]:02d}"
                for view, axis in (("Endzone", 1), ("Sideline", 0)):
                    if rng.random() < 0.9:
                        box = _box(rng, tracks[step, a, axis], down[step, a])
                        rows["baseline_helmets"].append(
                            (*key, view, f"{name}_{view}.mp4", 300 + 6 * step, players[a], label, *box)
                        )
                for b in range(a + 1, 2 * TEAM):
                    gap = tracks[step, a] - tracks[step, b]
                    away = float(np.hypot(*gap))
                    approach = -float(gap @ (move[step, a] - move[step, b])) / max(away, 0.3)
                    score = 5 * (reach - away) + closing * approach + foes * (2 * (side[a] != side[b]) - 1)
                    _label(rows, guesses, rng, key[0], times[step], step, players[a], players[b],
                           float(expit(1.5 * score)), away < reach)  # fmt: skip
                chance = 0.95 if down[step, a] else 0.01
                _label(rows, guesses, rng, key[0], times[step], step, players[a], "G", chance, False)
        for view in VIEWS:
            (raw / "train" / f"{name}_{view}.mp4").write_bytes(_video(tracks, side, view))
        for view in ("Endzone", "Sideline"):
            rows["video_metadata"].append((*key, view, times[0], times[-1], times[0]))
    for table, header in HEADERS.items():
        file = (
            f"train_{table}.csv"
            if table in ("baseline_helmets", "player_tracking", "video_metadata")
            else f"{table}.csv"
        )
        pd.DataFrame(rows[table], columns=header.split(",")).to_csv(raw / file, index=False)
    found = pd.DataFrame(guesses, columns=["contact_id", "ceiling", "simple"]).set_index("contact_id").astype(int)
    return {guess: found[[guess]].set_axis(["contact"], axis=1) for guess in found}


def _label(
    rows, guesses, rng, play: str, time: str, step: int, a: int, b: int | str, chance: float, near: bool
) -> None:
    id = f"{play}_{step}_{a}_{b}"
    rows["train_labels"].append((id, play, time, step, a, b, int(rng.random() < chance)))
    guesses.append((id, chance > 0.5, near))


def _tracks(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the players' places, shape (steps, players, 2), and when each falls. Each runs to a start place."""
    start = np.array([50, 26]) + rng.normal(0, 3, (2 * TEAM, 2))
    goal = start[rng.permutation(2 * TEAM)] + rng.normal(0, 1, (2 * TEAM, 2))
    share = np.cumsum(np.abs(gaussian_filter1d(rng.normal(1, 0.7, (STEPS, 2 * TEAM)), 1.5, axis=0)), axis=0) / STEPS
    falls = np.where(rng.random(2 * TEAM) < 0.2, rng.integers(3, STEPS - 2, 2 * TEAM), STEPS)
    share = np.where(np.arange(STEPS)[:, None] >= falls, share[np.minimum(falls, STEPS - 1), range(2 * TEAM)], share)
    return start + share[..., None] * (goal - start) + rng.normal(0, 0.03, (STEPS, 2 * TEAM, 2)), falls


def _seen(rng: np.random.Generator, place: np.ndarray, move: np.ndarray, down: bool) -> list[float]:
    """Return a sensor's values: x, y, speed, distance, direction, orientation, acceleration and sa."""
    speed = float(np.hypot(*move))
    way = float(np.rad2deg(np.arctan2(*move)) % 360)
    pushed = abs(rng.normal(0, 3 if down else 1.5))
    values = [*place, speed, speed / 10, way, (way + rng.normal(0, 40)) % 360, pushed, pushed * rng.choice([-1, 1])]
    return [round(float(value), 2) for value in values]


def _box(rng: np.random.Generator, across: float, down: bool) -> list[int]:
    """Return a helmet's left, width, top and height in pixels. Players who are down have a lower, wider box."""
    width, height = rng.normal(28 if down else 22, 2.5), rng.normal(20 if down else 25, 2.5)
    return [
        int(value) for value in (12 * across + rng.normal(0, 3), width, 330 + 35 * down + rng.normal(0, 18), height)
    ]


def _video(tracks: np.ndarray, side: np.ndarray, view: str) -> bytes:
    """Return a short video of the players as dots. The real frames have 1280 by 720 pixels."""
    frames = np.full((STEPS // 2, 36, 64), 90, np.uint8)
    x, y = ((tracks[::2, :, axis] - centre) * 2.5 for axis, centre in ((0, 50), (1, 26)))
    across, along = (y, x) if view == "Endzone" else (x, y)
    for k in range(len(frames)):
        frames[k, (along[k] + 18).astype(int).clip(0, 35), (across[k] + 32).astype(int).clip(0, 63)] = 160 + 90 * side
    return mp4(list(frames), 60)
