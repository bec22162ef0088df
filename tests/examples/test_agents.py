"""The example agents, on the example competition, with a scripted model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_mlebench.records.outcome import Ending
from pytest_mlebench.records.record import RunRecord
from pytest_mlebench.results import read_group
from tests.examples.conftest import EXAMPLES, Run
from tests.llm.atif import problems
from tests.llm.conftest import certificates, upstream
from tests.llm.upstreams import Move, Upstream

__all__ = ["certificates", "upstream"]

SESSION = (
    "pytest --agents-dir=agents --competitions-dir=competitions --split=own --run-group=mine --sandbox=local "
    "--time-limit=30m --trust-agent=three-lines --trust-agent=one-program --trust-agent=improver "
    "--trust-agent=improver/dev"
)
PROGRAM = """
import json, os
import numpy as np
import pandas as pd

def features(table):
    columns = pd.get_dummies(table[["variety", "water", "light", "temperature"]], dtype=float).to_numpy()
    products = [left * right for left in columns.T for right in columns.T]
    return np.column_stack([columns, *products])[:, :COLUMNS]

data = os.environ["DATA_DIR"]
train, test = (pd.read_csv(f"{data}/{name}.csv") for name in ("train", "test"))
known, target = features(train), train["harvest"]
half = len(train) // 2
held_out = known[half:] @ np.linalg.lstsq(known[:half], target[:half])[0]
test["harvest"] = (features(test) @ np.linalg.lstsq(known, target)[0]).clip(0)
test[["id", "harvest"]].to_csv("candidate.csv", index=False)
print(json.dumps({"validation_score": ((held_out - target[half:]) ** 2).mean() ** 0.5, "lower_is_better": True}))
"""
GOOD, POOR = PROGRAM.replace("COLUMNS", "1000"), PROGRAM.replace("COLUMNS", "1")
MALFORMED = GOOD.replace('[["id", "harvest"]]', '[["id"]]').replace("** 0.5", "** 0.5 / 2")


def fenced(*programs: str) -> Any:
    """A model that answers with a series of programs."""
    answers = iter(programs)
    return lambda body: Move(f"```python\n{next(answers)}\n```")


def only_record(folder: Path) -> tuple[RunRecord, Path]:
    group = read_group(folder / "reports/mine")
    (record,) = group.records
    return record, group.folder / record.run_id


def test_the_three_line_agent_has_three_lines() -> None:
    files = [path for path in (EXAMPLES / "agents/three-lines").iterdir() if path.is_file()]
    assert sum(len(path.read_text().splitlines()) for path in files) == 3


@pytest.mark.full
def test_the_improver_keeps_improvements_until_its_budget_ends(folder: Path, run: Run, upstream: Upstream) -> None:
    upstream.play = fenced(POOR, "print('I forgot')", GOOD, MALFORMED)
    run(f"{SESSION} --agent=improver/dev --max-calls=4", folder)
    record, run_dir = only_record(folder)
    log = (run_dir / "run.log").read_text()
    assert record.outcome == "gold", log
    assert [line.split(": ")[2] for line in log.splitlines() if line.startswith("step ")] == [
        "It is the best so far, and submitted.",
        "The last line is not the requested JSON.",
        "It is the best so far, and submitted.",
        "candidate.csv is not well formed",
    ]
    assert record.ending is Ending.BUDGET_ENDED and record.llm["calls"] == 4 and "insufficient_quota" in log
    assert record.validation_score == pytest.approx(record.score, abs=0.1)
    trajectory = json.loads((run_dir / "trajectory.json").read_text())
    assert problems(trajectory) == [] and len(trajectory["steps"]) >= 8
    assert "Improve it." in run("mlebench trajectory mine", folder)
