"""Harbor jobs on disk in the format of version 0.25."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
MODEL = {"name": "gpt-5", "provider": "openai"}
TASK = {"competition_id": "smoke-diabetes", "bench_version": "v1", "data": "real", "reward": "percentile"}


def make_job(folder: Path) -> Path:
    """A job without trials."""
    folder.mkdir(parents=True)
    (folder / "result.json").write_text(json.dumps({"id": "job", "n_total_trials": 1}))
    (folder / "lock.json").write_text(json.dumps({"schema_version": 3, "harbor": {"version": "0.25.0"}}))
    return folder


def add_trial(
    job: Path,
    name: str = "smoke-diabetes__abc1234",
    *,
    submission: Path | str | None = None,
    exception: str = "",
    began: bool = True,
    minute: int = 0,
    rewards: Mapping[str, float] | None = None,
    report: Mapping[str, Any] | None = None,
    task: Mapping[str, Any] = TASK,
    usage: Mapping[str, Any] | None = None,
    trajectory: Mapping[str, Any] | None = None,
    **result: Any,
) -> Path:
    """A trial that ended after a minute; ``result`` overrides values in its ``result.json``."""
    folder = job / name
    for part in ("agent", "verifier", "artifacts/home/submission"):
        (folder / part).mkdir(parents=True)
    start = START + timedelta(minutes=minute)
    times = {"started_at": start.isoformat(), "finished_at": (start + timedelta(seconds=60)).isoformat()}
    values: dict[str, Any] = {
        "task_name": "mlebench/smoke-diabetes",
        "trial_name": name,
        "config": {"environment": {"type": "docker"}},
        "agent_info": {
            "name": "mini-swe-agent",
            "version": "2.1",
            "model_info": {"name": "gpt-5", "provider": "openai"},
        },
        "agent_result": usage,
        "verifier_result": None if rewards is None else {"rewards": dict(rewards)},
        "exception_info": {"exception_type": exception, "exception_message": "it went wrong"} if exception else None,
        **times,
        "agent_execution": times if began else None,
        **result,
    }
    (folder / "config.json").write_text("{}")
    (folder / "result.json").write_text(json.dumps(values))
    (folder / "trial.log").write_text("the trial began\n")
    (folder / "agent" / "agent.txt").write_text("the agent thinks\n")
    (folder / "verifier" / "report.json").write_text(json.dumps({"task": dict(task), "report": dict(report or {})}))
    if trajectory is not None:
        (folder / "agent" / "trajectory.json").write_text(json.dumps(trajectory))
    if submission is not None:
        text = submission.read_text() if isinstance(submission, Path) else submission
        (folder / "artifacts/home/submission/submission.csv").write_text(text)
    return folder
