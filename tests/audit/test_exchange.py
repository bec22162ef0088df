"""Regrading stored submissions, and exporting groups in formats of other programs."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from statistics import mean, stdev

import pytest

from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.cli.main import main
from pytest_mlebench.data.dataset import fingerprint
from pytest_mlebench.data.store import DataStore
from pytest_mlebench.grading.grader import Grader
from pytest_mlebench.llm.ledger import Call, Ledger
from pytest_mlebench.llm.prices import Tokens
from pytest_mlebench.records.outcome import Ending
from pytest_mlebench.records.record import RunRecord
from pytest_mlebench.results import read_group
from tests.groups import record_with, save_group

pytestmark = pytest.mark.full
COMPETITION = default_catalogue()["smoke-diabetes"]


@pytest.fixture
def group(tmp_path: Path, data: Path) -> Path:
    """Two agents × two seeds that submitted the sample; one run has a recorded conversation."""
    dataset = DataStore(data).dataset(COMPETITION)
    records = [record_with(COMPETITION, "gold", agent=agent, seed=seed) for agent in ("a", "b") for seed in (0, 1)]
    records = [replace(record, data=fingerprint(dataset)) for record in records]
    folder = tmp_path / "runs" / "exchanged"
    grader = Grader(COMPETITION, dataset)
    for record in save_group(folder, records, planned=[record.key for record in records]):
        path = folder / record.run_id / "submission/submission.csv"
        path.write_bytes(dataset.sample_submission.read_bytes())
        (folder / record.run_id / "code").mkdir()
        (folder / record.run_id / "code/solution.py").write_text("print('solved')\n")
        (folder / record.run_id / "code/link").symlink_to("/etc/passwd")
        replace(record, report=grader.report(path)).write(folder / record.run_id)
    _converse(folder / records[0].run_id, read_group(folder).records[0])
    return folder


def _converse(run_dir: Path, record: RunRecord) -> None:
    tool = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
    asked = [{"role": "system", "content": "You compete."}, {"role": "user", "content": "Begin."}]
    answers = [
        {"role": "assistant", "content": "I look.", "tool_calls": [tool]},
        {"role": "assistant", "content": "Done."},
    ]
    told = [asked, [*asked, answers[0], {"role": "tool", "tool_call_id": "c1", "content": "train.csv"}]]
    ledger = Ledger(run_dir)
    for number, (messages, answer) in enumerate(zip(told, answers, strict=True), 1):
        tokens = Tokens(input=10, output=5)
        ledger.write(
            Call(
                number=number,
                flavour="openai",
                endpoint="chat/completions",
                kind="generate",
                model="m",
                status=200,
                tokens=tokens,
                cost=Decimal("0.01"),
            )
        )
        ledger.write_bodies(
            number,
            {"request": {"model": "m", "messages": messages}, "response": {"choices": [{"message": answer}]}},
        )
    ledger.close()
    replace(record, llm=ledger.totals.to_json()).write(run_dir)


def test_regrading_does_not_change_the_first_result(
    group: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = sorted(group.glob("*/run.json"))[0]
    values = json.loads(run.read_text())
    values["report"]["score"], values["report"]["gold_medal"] = 0.123, True  # as from a defective grader
    run.write_text(json.dumps(values))
    before = {path: path.read_bytes() for path in group.rglob("*.json")}
    assert main(["regrade", str(group), f"--data-dir={data}"]) == 0
    out = capsys.readouterr().out
    assert "4 runs regraded, 1 with a different grade" in out and "0.12300 gold" in out
    assert main(["regrade", str(group), f"--data-dir={data}", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    (changed,) = [own for own in result["runs"] if own["changes"]]
    assert changed["run_id"] == values["run_id"] and changed["before"]["score"] == 0.123
    assert any(text.startswith("score 0.123, now ") for text in changed["changes"])
    assert {path: path.read_bytes() for path in before} == before, "the first result is unchanged"
    assert len(list(group.glob("regraded-v1-*.json"))) == 2
    (group / "regraded-v1-broken.json").write_text('{"run_group": ')
    assert main(["report", str(group)]) == 0
    shown = capsys.readouterr().out
    assert "Regraded:" in shown and "4 runs regraded, 1 with a different grade on 20" in shown
    row = next(line for line in shown.splitlines() if "0.12300 gold" in line)
    assert "cannot be read: regraded-v1-broken.json: " in shown
    assert row.startswith("smoke-diabetes") and f"{changed['after']['score']:.5f}" in row
    assert main(["regrade", str(group), f"--data-dir={group / 'nowhere'}"]) == 1
    out = capsys.readouterr().out
    nowhere = group / "nowhere"
    command = f"`mlebench prepare -c smoke-diabetes --data-dir {nowhere}`"
    assert f"the data of smoke-diabetes is not in {nowhere}: {command}" in " ".join(out.split())


def test_a_runs_folder_for_mle_bench_has_a_group_for_each_agent_and_seed(group: Path, tmp_path: Path) -> None:
    target = tmp_path / "out"
    assert main(["export", str(group), "--to=mle-bench", "-o", str(target)]) == 0
    with (target / "run_group_experiments.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["experiment_id"] for row in rows] == ["a", "a", "b", "b"]
    for row in rows:
        folder = target / row["run_group"]
        (report,) = folder.glob("*_grading_report.json")
        values = json.loads(report.read_text())
        assert values["total_runs"] == 1 and values["competition_reports"][0]["competition_id"] == COMPETITION.id
        runs = json.loads((folder / "metadata.json").read_text())["runs"]
        assert all((folder / run / "submission/submission.csv").is_file() for run in runs)
        assert [path.name for path in folder.glob("*/code/*")] == ["solution.py"], "links are not exported"
    assert main(["export", str(group), "--to=mle-bench", "-o", str(target)]) == 2


def aggregated(runs_dir: Path, experiment: str) -> tuple[float, float | None]:
    """Mean share of medals over seeds in per cent, and its standard error, as MLE-bench's documentation defines it.

    ``run_group_experiments.csv`` lists the run groups of an experiment. The newest grading report of each is read, and
    the i-th report of a competition is its seed i.
    """
    with (runs_dir / "run_group_experiments.csv").open(newline="") as file:
        groups = [row["run_group"] for row in csv.DictReader(file) if row["experiment_id"] == experiment]
    medals: dict[str, list[bool]] = {}
    for group in groups:
        newest = max((runs_dir / group).glob("*grading_report.json"), key=lambda path: path.name)
        for report in json.loads(newest.read_text())["competition_reports"]:
            medals.setdefault(report["competition_id"], []).append(report["any_medal"])
    seeds = max(map(len, medals.values()))
    shares = [100 * mean(own[i] for own in medals.values() if i < len(own)) for i in range(seeds)]
    return mean(shares), stdev(shares) / len(shares) ** 0.5 if len(shares) > 1 else None


SEVERAL = {
    "a": ("gold", "no_medal", "crashed", "silver", "gold", "bronze", "no_medal", "invalid_submission", "gold"),
    "b/large": ("crashed", "crashed", "gold", "no_medal", "no_submission", "above_median", "gold", "silver", "bronze"),
    "c": ("no_medal",) * 9,
}
"""Outcomes on three competitions with seeds 0, 1 and 2."""


def save_several(folder: Path, *, without: tuple[str, int, int] | None = None) -> Path:
    """Write a group of these runs, but not of the planned run ``without`` (agent, seed and competition)."""
    competitions = [default_catalogue()[id] for id in ("smoke-diabetes", "smoke-digits", "smoke-breast-cancer")]
    records = {
        (agent, k // 3, k % 3): record_with(competitions[k % 3], outcome, agent=agent, seed=k // 3)
        for agent, outcomes in SEVERAL.items()
        for k, outcome in enumerate(outcomes)
    }
    planned = [record.key for record in records.values()]
    save_group(folder, [record for place, record in records.items() if place != without], planned=planned)
    return folder


def test_reports_match_mle_benchs_documented_aggregation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Follows the documentation; MLE-bench's own script is not run."""
    group = save_several(tmp_path / "runs/several")
    assert main(["export", str(group), "--to=mle-bench", "-o", str(tmp_path / "out")]) == 0
    assert "warning" not in capsys.readouterr().err
    assert main(["report", str(group), "--format=json"]) == 0
    summaries = {own["agent"]: own["any_medal"] for own in json.loads(capsys.readouterr().out)["summaries"]}
    assert summaries.keys() == SEVERAL.keys()
    for agent, own in summaries.items():
        rate, error = aggregated(tmp_path / "out", re.sub("/", "-", agent))
        assert (own["mean"], own["standard_error"]) == pytest.approx((rate, error)), agent
    assert summaries["a"]["mean"] == pytest.approx(500 / 9) and summaries["c"]["mean"] == 0


def test_a_missing_run_that_would_shift_mle_benchs_seeds_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    group = save_several(tmp_path / "runs/several", without=("b/large", 1, 2))
    assert main(["export", str(group), "--to=mle-bench", "-o", str(tmp_path / "out")]) == 0
    (said,) = [record.getMessage() for record in caplog.records if "MLE-bench" in record.getMessage()]
    assert "b/large lacks smoke-breast-cancer with seed 1" in said


def test_trajectories_are_exported_in_atif(group: Path, tmp_path: Path) -> None:
    assert main(["export", str(group), "--to=atif", "-o", str(tmp_path / "out")]) == 0
    (path,) = (tmp_path / "out").iterdir()
    trajectory = json.loads(path.read_text())
    assert trajectory["schema_version"].startswith("ATIF") and trajectory["steps"][-1]["message"] == "Done."


READ = """
import json, sys
from inspect_ai.log import list_eval_logs, read_eval_log, read_eval_log_samples

found = {}
for info in list_eval_logs(sys.argv[1], formats=["json"]):
    log = read_eval_log(info)
    samples = list(read_eval_log_samples(info, all_samples_required=False))
    found[log.eval.solver] = {
        "status": log.status, "epochs": log.eval.config.epochs,
        "medal": log.results.scores[0].metrics["mean"].value,
        "usage": {name: own.total_tokens for name, own in log.stats.model_usage.items()},
        "samples": [
            {"id": own.id, "epoch": own.epoch, "score": own.scores["mle_bench"].value,
             "error": own.error and own.error.message, "limit": own.limit and own.limit.type,
             "usage": {name: [use.input_tokens, use.output_tokens] for name, use in own.model_usage.items()},
             "messages": [[message.role, message.text] for message in own.messages],
             "tools": [[call.function, call.arguments] for message in own.messages if message.role == "assistant"
                       for call in message.tool_calls or []]}
            for own in samples
        ],
    }
print(json.dumps(found))
"""


def exported_log(group: Path, target: Path) -> Path:
    assert main(["export", str(group), "--to=inspect", "-o", str(target)]) == 0
    return sorted(target.glob("*-a.json"))[0]


def test_an_inspect_log_has_samples_scores_and_messages(group: Path, tmp_path: Path) -> None:
    log = json.loads(exported_log(group, tmp_path / "out").read_text())
    record = next(record for record in read_group(group).records if (record.agent, record.seed) == ("a", 0))
    sample = log["samples"][0]
    assert (sample["id"], sample["epoch"]) == (COMPETITION.id, 1)
    assert sample["scores"]["mle_bench"]["value"] == record.score
    assert [message["role"] for message in sample["messages"]] == ["system", "user", "assistant", "tool", "assistant"]


@pytest.fixture
def inspect_python() -> str:
    """A Python with inspect-ai."""
    python = os.environ.get("MLEBENCH_TEST_INSPECT")
    if not python:
        pytest.skip("MLEBENCH_TEST_INSPECT does not name a Python with inspect-ai")
    return python


def test_inspects_reader_reads_the_logs_of_all_agents(group: Path, tmp_path: Path, inspect_python: str) -> None:
    records = read_group(group).records
    crashed, late = (next(r for r in records if (r.agent, r.seed) == ("b", seed)) for seed in (0, 1))
    replace(crashed, ending=Ending.CRASHED, detail="exit code 3").write(group / crashed.run_id)
    replace(late, ending=Ending.TIMED_OUT, limits={"time_limit": 60.0}).write(group / late.run_id)
    exported_log(group, tmp_path / "out")
    command = [inspect_python, "-c", READ, str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    score = records[0].score
    assert found.keys() == {"a", "b"}
    assert {(own["status"], own["epochs"], own["medal"]) for own in found.values()} == {
        ("success", 2, float(records[0].report.any_medal))
    }
    first, second = found["a"]["samples"]
    assert (first["id"], first["epoch"], first["score"], second["epoch"]) == (COMPETITION.id, 1, score, 2)
    assert first["messages"] == [
        ["system", "You compete."],
        ["user", "Begin."],
        ["assistant", "I look."],
        ["tool", "train.csv"],
        ["assistant", "Done."],
    ]
    assert first["tools"] == [["bash", {"command": "ls"}]] and second["messages"] == []
    assert first["usage"] == {"m": [20, 10]} and found["a"]["usage"] == {"m": 30} and found["b"]["usage"] == {}
    assert (first["error"], first["limit"]) == (None, None)
    assert [(own["error"], own["limit"]) for own in found["b"]["samples"]] == [
        ("crashed; exit code 3", None),
        (None, "time"),
    ]


def test_inspects_commands_list_and_dump_the_logs(group: Path, tmp_path: Path, inspect_python: str) -> None:
    log = exported_log(group, tmp_path / "out")
    program = str(Path(inspect_python).with_name("inspect"))
    listed = subprocess.run(
        [program, "log", "list", "--log-dir", str(tmp_path / "out"), "--json"],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert listed.returncode == 0, listed.stderr
    assert {own["task"] for own in json.loads(listed.stdout)} == {"mle-bench"} and len(json.loads(listed.stdout)) == 2
    dumped = subprocess.run(
        [program, "log", "dump", str(log)], capture_output=True, text=True, check=False, timeout=300
    )
    assert dumped.returncode == 0, dumped.stderr
    values = json.loads(dumped.stdout)
    assert len(values["samples"]) == 2 and values["eval"]["solver"] == "a"
