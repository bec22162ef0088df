"""Learn which strategy to use for a competition, without a language model: python learn.py [PLOT.svg].

The policy sees an agent's first observation, chooses one of four strategies, and receives the reward. It is a
softmax over strategies, linear in four features of the observation, and learns by REINFORCE on twins of ten
competitions. A reward is the share of the leaderboard's teams that the submission beats. The policy's expected
reward is measured on held-out seeds and competitions.
"""

from __future__ import annotations

import csv
import math
import os
import random
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from pytest_mlebench import Bench
from pytest_mlebench.extras.training.episode import Episode
from pytest_mlebench.extras.training.observation import Observation

SOLVE = Path(__file__).with_name("solve.py").read_text(encoding="utf-8")
STRATEGIES = ("sample", "mean", "numbers", "words")
LEARNED = (
    "detecting-insults-in-social-commentary",
    "jigsaw-toxic-comment-classification-challenge",
    "learning-agency-lab-automated-essay-scoring-2",
    "lmsys-chatbot-arena",
    "petfinder-pawpularity-score",
    "playground-series-s3e18",
    "spooky-author-identification",
    "tabular-playground-series-dec-2021",
    "us-patent-phrase-to-phrase-matching",
    "ventilator-pressure-prediction",
)
HELD_OUT = ("google-quest-challenge", "nomad2018-predict-transparent-conductors", "spaceship-titanic")
SEEDS, HELD_OUT_SEED = (1, 2), 100
ROUNDS = int(os.environ.get("ROUNDS", "12"))
RATE = 16.0
Task = tuple[str, int]
Seen = list[float]
Tried = tuple[Task, Seen, int, float]
"""A task, its features, the strategy tried, and its reward."""


def features(observation: Observation) -> Seen:
    """A constant, the share of numeric test columns, whether there is a long text, and the number of columns."""
    rows = list(csv.reader(observation.heads["test.csv"].splitlines()))
    cells = rows[1] if len(rows) > 1 else [""]
    texts = [cell for cell in cells if not cell.replace(".", "").replace("-", "").isdigit()]
    words = max((len(text.split()) for text in texts), default=0)
    return [1.0, 1 - len(texts) / len(cells), float(words > 3), min(len(rows[0]), 20) / 20]


class Policy:
    """Computes probabilities of strategies from the features of a task."""

    def __init__(self) -> None:
        self.weights = [[0.0] * 4 for _ in STRATEGIES]

    def probabilities(self, seen: Seen) -> list[float]:
        scores = [sum(w * x for w, x in zip(row, seen, strict=True)) for row in self.weights]
        powers = [math.exp(score - max(scores)) for score in scores]
        return [power / sum(powers) for power in powers]

    def choose(self, number: int, task: Task, seen: Seen) -> int:
        """Draw a strategy for a task of this round."""
        draw = random.Random(f"{number} {task}")  # independent of the order of threads
        return draw.choices(range(len(STRATEGIES)), self.probabilities(seen))[0]

    def learn(self, tried: Iterable[tuple[Seen, int, float]]) -> None:
        """REINFORCE: choices with above-average reward become more likely."""
        tried = list(tried)
        mean = sum(reward for _, _, reward in tried) / len(tried)
        steps = [(seen, chosen, reward - mean, self.probabilities(seen)) for seen, chosen, reward in tried]
        for seen, chosen, advantage, likely in steps:
            for action, row in enumerate(self.weights):
                slope = (action == chosen) - likely[action]
                for k, x in enumerate(seen):
                    row[k] += RATE / len(tried) * advantage * slope * x


def always(strategy: int, task: Task, seen: Seen) -> int:
    """A policy with only one strategy."""
    return strategy


def play(bench: Bench, tasks: Iterable[Task], choose: Callable[[Task, Seen], int]) -> list[Tried]:
    """Play one episode of each task with the strategy that ``choose`` returns."""
    played: list[Tried] = []

    def policy(episode: Episode, observation: Observation) -> None:
        task, seen = (episode.competition.id, episode.seed or 0), features(observation)
        chosen = choose(task, seen)
        episode.write_file("solve.py", SOLVE)
        step = episode.step(f"python3 solve.py {STRATEGIES[chosen]}")
        played.append((task, seen, chosen, step.reward))

    for ended in bench.play(policy, tasks, parallel=2, reward="percentile"):
        if ended.error is not None:
            raise ended.error
    return played


def plot(curves: dict[str, list[float]]) -> str:
    """An SVG plot of the rewards over the rounds."""
    width, height, left = 640, 300, 50
    most = len(next(iter(curves.values()))) - 1
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        'font-size="13"><rect width="100%" height="100%" fill="#fff"/>'
    ]
    for tick in range(0, 8, 2):
        y = 250 - tick * 30
        parts.append(f'<path d="M{left} {y}H430" stroke="#ddd"/><text x="20" y="{y + 4}">{tick / 10:.1f}</text>')
    parts.append('<text x="20" y="20">Mean reward (share of teams beaten)</text>')
    parts.append(f'<text x="{left}" y="285">Round of 10 training episodes: 0 to {most}</text>')
    styles = ("#0b6e4f", ""), ("#b3541e", "8 4"), ("#3b4cc0", "2 4")
    for number, ((name, values), (color, dashes)) in enumerate(zip(curves.items(), styles, strict=True)):
        points = " ".join(f"{left + 380 * k / most:.1f},{250 - 300 * value:.1f}" for k, value in enumerate(values))
        stroke = f'stroke="{color}" stroke-width="2.5" stroke-dasharray="{dashes}"'
        y = 70 + 50 * number
        parts.append(f'<polyline points="{points}" fill="none" {stroke}/><path d="M445 {y}h24" {stroke}/>')
        parts.append(f'<text x="475" y="{y + 4}">{name}</text>')
        parts.append(f'<text x="475" y="{y + 20}" fill="#444">{values[0]:.2f} to {values[-1]:.2f}</text>')
    return "\n".join([*parts, "</svg>", ""])


def main() -> None:
    started = time.monotonic()
    bench = Bench(sandbox="local")
    policy = Policy()
    groups = {"held-out seeds": LEARNED, "held-out competitions": HELD_OUT}
    curves: dict[str, list[float]] = {"training": [], **{name: [] for name in groups}}
    known: dict[str, list[Tried]] = {}  # rewards of all strategies on held-out tasks, for expected rewards
    for name, ids in groups.items():
        tasks = [(id, HELD_OUT_SEED) for id in ids]
        known[name] = [one for k in range(len(STRATEGIES)) for one in play(bench, tasks, partial(always, k))]
        best = sum(max(reward for own, *_, reward in known[name] if own == task) for task in tasks) / len(tasks)
        print(f"{name}: the best strategy for each task earns {best:.2f}", flush=True)
    for number in range(ROUNDS + 1):
        for name, tried in known.items():
            mean = sum(policy.probabilities(seen)[chosen] * reward for _, seen, chosen, reward in tried)
            curves[name].append(mean / len(groups[name]))
        batch = [(id, SEEDS[number % len(SEEDS)]) for id in LEARNED]
        tried = play(bench, batch, partial(policy.choose, number))
        curves["training"].append(sum(reward for *_, reward in tried) / len(tried))
        policy.learn((seen, chosen, reward) for _, seen, chosen, reward in tried)
        line = ", ".join(f"{name} {values[-1]:.2f}" for name, values in curves.items())
        print(f"after {number} rounds, {time.monotonic() - started:.0f} s: {line}", flush=True)
    print(f"{time.monotonic() - started:.0f} seconds, {sum(os.times()[:4]):.0f} of the processor")
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(plot(curves), encoding="utf-8")


if __name__ == "__main__":
    main()
