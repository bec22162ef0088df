"""The example that learns from episodes."""

from __future__ import annotations

import importlib.util
import random
import shutil
from pathlib import Path
from types import ModuleType

import pytest

from tests.examples.conftest import EXAMPLES, Run

LESS = (
    "import learn; learn.LEARNED = ('spaceship-titanic',); learn.HELD_OUT = ('playground-series-s3e18',); "
    "learn.ROUNDS = 1; learn.SEEDS = (1,); learn.main()"
)


@pytest.fixture
def learn() -> ModuleType:
    spec = importlib.util.spec_from_file_location("learn", EXAMPLES / "training/learn.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_its_policy_learns_the_strategy_for_each_observation(learn: ModuleType) -> None:
    policy, draw = learn.Policy(), random.Random(0)
    kinds = {"table": ([1.0, 1.0, 0.0, 0.5], 2), "text": ([1.0, 0.0, 1.0, 0.1], 3)}
    for number in range(30):
        tried = []
        for kind, (seen, best) in kinds.items():
            chosen = policy.choose(number, (kind, draw.randrange(1000)), seen)
            tried.append((seen, chosen, float(chosen == best)))
        policy.learn(tried)
    assert all(policy.probabilities(seen)[best] > 0.8 for seen, best in kinds.values())


@pytest.mark.full
def test_it_runs_on_fewer_competitions(tmp_path: Path, run: Run) -> None:
    folder = Path(shutil.copytree(EXAMPLES / "training", tmp_path / "training"))
    plot = folder / "learning.svg"
    said = run(f'python -c "import sys; sys.argv.append({str(plot)!r}); {LESS}"', folder)
    assert "held-out seeds: the best strategy for each task earns 0." in said
    assert "after 1 rounds" in said and plot.read_text().count("<polyline") == 3
