"""Generates run groups on disk for tests and benchmarks, with fictitious runs of bundled competitions.

As a command, it generates an example: ``python -m tests.groups reports/example --agent=aide --seeds=3``.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pytest_mlebench._version import __version__
from pytest_mlebench.catalog import Competition, default_catalogue
from pytest_mlebench.io.values import write_json
from pytest_mlebench.records.group import write_group
from pytest_mlebench.records.outcome import Ending, Report, SandboxAccount, TimelinePoint, Validation
from pytest_mlebench.records.record import MANIFEST, RUN_LOG, SUBMISSION, RunKey, RunRecord

DAY = 24 * 3600.0
START = datetime(2026, 3, 1, 12, tzinfo=UTC)
FAILURES = {
    "invalid_submission": 0.03,
    "no_submission": 0.02,
    "timed_out": 0.03,
    "out_of_memory": 0.02,
    "crashed": 0.03,
    "error": 0.004,
}
"""Probability of each failure in a random run."""
_ENDINGS = {
    "timed_out": Ending.TIMED_OUT,
    "out_of_memory": Ending.OUT_OF_MEMORY,
    "crashed": Ending.CRASHED,
    "budget_ended": Ending.BUDGET_ENDED,
    "error": Ending.NOT_STARTED,
}


def make_group(
    folder: Path,
    *,
    agents: Mapping[str, float] | Sequence[str] = ("aide",),
    competitions: Sequence[Competition] | None = None,
    seeds: int = 3,
    missing: Collection[RunKey] = (),
    canonical: Mapping[str, Any] | None = None,
) -> list[RunRecord]:
    """Generate a run group of random runs. The same arguments give the same runs.

    ``agents`` maps an agent to the mean share of teams that it beats (default: 0.75). All 75 competitions are run
    unless others are given. ``missing`` runs are planned, but have no record.
    """
    abilities = agents if isinstance(agents, Mapping) else dict.fromkeys(agents, 0.75)
    chosen = default_catalogue().split("all") if competitions is None else competitions
    planned = [RunKey(agent, c.id, seed) for agent in abilities for c in chosen for seed in range(seeds)]
    by_id = {competition.id: competition for competition in chosen}
    records = [
        random_record(by_id[key.competition_id], key.agent, key.seed, ability=abilities[key.agent])
        for key in planned
        if key not in missing
    ]
    return save_group(folder, records, planned=planned, canonical=canonical)


def save_group(
    folder: Path,
    records: Iterable[RunRecord],
    *,
    planned: Iterable[RunKey] | None = None,
    canonical: Mapping[str, Any] | None = None,
) -> list[RunRecord]:
    """Write records as the run group ``folder``: run directories with logs, reports, and a manifest if planned."""
    folder.mkdir(parents=True, exist_ok=True)
    saved = [replace(record, run_group=folder.name) for record in records]
    for record in saved:
        run_dir = folder / record.run_id
        run_dir.mkdir()
        record.write(run_dir)
        (run_dir / RUN_LOG).write_text(_log(record), encoding="utf-8")
        if record.report.submission_exists:
            (run_dir / SUBMISSION).parent.mkdir()
            (run_dir / SUBMISSION).write_text("id,target\n1,0.5\n2,0.25\n", encoding="utf-8")
    write_group(folder, START.isoformat(), saved)
    if planned is not None:
        manifest: dict[str, Any] = {"run_group": folder.name, "runs": [key._asdict() for key in planned]}
        if canonical is not None:
            manifest["canonical"] = dict(canonical)
        write_json(folder / MANIFEST, manifest)
    return saved


def random_record(competition: Competition, agent: str, seed: int, *, ability: float = 0.75) -> RunRecord:
    """A run with a score near the agent's ability on the competition's leaderboard, or sometimes a failure."""
    taste = random.Random(f"{agent} on {competition.id}").gauss(0, 0.25)
    rng = random.Random(f"{agent} on {competition.id}, seed {seed}")
    outcome = rng.choices([None, *FAILURES], [1 - sum(FAILURES.values()), *FAILURES.values()])[0]
    if outcome is not None:
        record = record_with(competition, outcome, agent=agent, seed=seed)
    else:
        beaten = min(0.995, max(0.01, ability + taste + rng.gauss(0, 0.08)))
        report = report_of(competition, round(score_beating(competition, beaten), 5))
        record = _record(competition, report, agent=agent, seed=seed)
    seconds = round(min(DAY, rng.lognormvariate(9.8, 0.8)), 3)
    if outcome is None and seconds == DAY:
        record = replace(record, ending=Ending.TIMED_OUT)  # its last submission is graded
    elif outcome == "timed_out":
        seconds = DAY
    elif outcome == "error":
        seconds = 0.0
    started = START + timedelta(minutes=rng.randrange(0, 7 * 24 * 60))
    checks = sorted(round(rng.uniform(0, seconds), 1) for _ in range(rng.randrange(6)))
    texts = ["The submission is not valid: column 'id' is missing", *["The submission is valid."] * 5]
    return replace(
        record,
        started_at=started.isoformat(),
        ended_at=(started + timedelta(seconds=seconds)).isoformat(),
        seconds=seconds,
        sandbox=replace(
            record.sandbox,
            validations=tuple(Validation(at=at, verdict=verdict) for at, verdict in zip(checks, texts, strict=False)),
        ),
    )


def record_with(competition: Competition, outcome: str, *, agent: str = "agent", seed: int = 0) -> RunRecord:
    """A run of 60 s with the given outcome. A medal is earned with exactly its threshold."""
    board = competition.leaderboard
    worse = 1.0 if board.lower_is_better else -1.0
    nudge = worse * 1e-6 * max(1.0, abs(board.median))
    if outcome in ("gold", "silver", "bronze"):
        report = report_of(competition, getattr(board, outcome))
    elif outcome in ("above_median", "no_medal"):
        report = report_of(competition, board.median + (nudge if outcome == "no_medal" else -nudge))
    elif outcome == "invalid_submission":
        report = report_of(competition, None, error="column 'target' is missing; the file has 'id'")
    else:
        report = report_of(competition, None, exists=False, error="file not found: submission.csv")
    record = _record(competition, report, agent=agent, seed=seed, ending=_ENDINGS.get(outcome, Ending.FINISHED))
    if outcome == "crashed":
        record = replace(record, exit_code=1, detail="exit code 1")
    elif outcome == "error":
        record = replace(record, error="the container did not start: no space left on device")
    if record.outcome != outcome:
        raise ValueError(f"{competition.id} has no score for {outcome}: it gives {record.outcome}")
    return record


def with_timeline(record: RunRecord, competition: Competition, *states: tuple[float, float | None]) -> RunRecord:
    """The run with snapshots of these scores at shares of its time and cost, followed by its last submission."""
    last = (1.0, record.score)
    points: list[TimelinePoint] = []
    for share, score in (*states, last):
        report = report_of(competition, score, error=None if score is not None else "column 'target' is missing")
        point = TimelinePoint(
            seconds=round(share * record.seconds, 3),
            calls=round(share * 100) if record.cost is not None else None,
            cost=round(share * record.cost, 6) if record.cost is not None else None,
            score=score,
            medal=report.medal,
            error=report.error,
            file=f"snapshots/{len(points) + 1:04}.csv",
            final=len(points) == len(states),
        )
        points.append(point)
    return replace(record, timeline=tuple(points if record.report.submission_exists else points[:-1]))


def report_of(
    competition: Competition, score: float | None, *, exists: bool = True, error: str | None = None
) -> Report:
    """The report on a score."""
    board = competition.leaderboard
    medal = board.medal(score)
    return Report(
        competition_id=competition.id,
        score=score,
        gold_threshold=board.gold,
        silver_threshold=board.silver,
        bronze_threshold=board.bronze,
        median_threshold=board.median,
        any_medal=medal is not None,
        gold_medal=medal == "gold",
        silver_medal=medal == "silver",
        bronze_medal=medal == "bronze",
        above_median=board.is_above_median(score),
        submission_exists=exists,
        valid_submission=exists and error is None,
        is_lower_better=board.lower_is_better,
        created_at=START.isoformat(),
        submission_path=SUBMISSION,
        error=error,
        percentile=board.percentile(score),
    )


def score_beating(competition: Competition, share: float) -> float:
    """The score that beats this share of the teams (0 to 1), interpolated between percentiles of the leaderboard."""
    board = competition.leaderboard
    scores = board.percentiles or (board.gold, board.silver, board.bronze, board.median)
    position = min(len(scores) - 1.0, max(0.0, (1 - share) * len(scores)))
    below = min(int(position), len(scores) - 2)
    return scores[below] + (position - below) * (scores[below + 1] - scores[below])


def _record(
    competition: Competition, report: Report, *, agent: str, seed: int, ending: Ending = Ending.FINISHED
) -> RunRecord:
    return RunRecord(
        run_id=f"{competition.id}_{agent.replace('/', '-')}-{seed}",
        run_group="group",
        competition_id=competition.id,
        split=competition.split,
        category=competition.category,
        agent=agent,
        seed=seed,
        started_at=START.isoformat(),
        ended_at=(START + timedelta(seconds=60)).isoformat(),
        ending=ending,
        seconds=60.0,
        report=report,
        versions={"pytest-mlebench": __version__, "python": "3.11.9"},
        limits={"time_limit": DAY, "cpus": 36.0, "memory": 440 << 30, "gpus": 1},
        sandbox=SandboxAccount(name="docker"),
        agent_definition={"id": agent},
        data_verified=True,
    )


def _log(record: RunRecord) -> str:
    lines = [f"{record.agent} on {record.competition_id}, seed {record.seed}", "reading /home/data/train.csv"]
    lines += [f"step {step}: validation score {0.5 + step / 100:.3f}" for step in range(1, 9)]
    if record.outcome == "crashed":
        lines += ["Traceback (most recent call last):", "ValueError: could not convert string to float: '<NA>'"]
    elif record.report.submission_exists:
        lines.append("wrote /home/submission/submission.csv")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="Generate a run group of random runs.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--agent", action="append", metavar="NAME[=SHARE]", help="and the share of teams it beats")
    parser.add_argument("--split", default="all")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    pairs = [text.partition("=") for text in options.agent or ["aide"]]
    records = make_group(
        options.folder,
        agents={name: float(share or 0.75) for name, _, share in pairs},
        competitions=default_catalogue().split(options.split),
        seeds=options.seeds,
        canonical={"is_canonical": False, "differences": ["8 CPUs instead of 36"]},
    )
    print(json.dumps({"run_group": str(options.folder), "runs": len(records)}))


if __name__ == "__main__":
    main()
