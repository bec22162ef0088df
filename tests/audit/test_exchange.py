"""Stored submissions graded again, and groups in forms that other programs read."""

from __future__ import annotations

import csv
import json
import os
import subprocess
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.cli.main import main
from pytest_mlebench.data.store import DataStore
from pytest_mlebench.data.verification import fingerprint
from pytest_mlebench.grading.grader import Grader
from pytest_mlebench.llm.ledger import Call, Ledger
from pytest_mlebench.llm.prices import Tokens
from pytest_mlebench.runs.group import read_group
from pytest_mlebench.runs.record import RunRecord
from tests.groups import record_with, save_group

pytestmark = pytest.mark.full
COMPETITION = default_catalogue()["smoke-diabetes"]


@pytest.fixture
def group(tmp_path: Path, data: Path) -> Path:
    """Two agents × two seeds whose submissions are the sample, graded; one run has a recorded conversation."""
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


def test_regrading_stands_beside_the_first_result(group: Path, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = sorted(group.glob("*/run.json"))[0]
    values = json.loads(run.read_text())
    values["report"]["score"], values["report"]["gold_medal"] = 0.123, True  # as a defective grader had it
    run.write_text(json.dumps(values))
    before = {path: path.read_bytes() for path in group.rglob("*.json")}
    assert main(["regrade", str(group), f"--data-dir={data}"]) == 0
    out = capsys.readouterr().out
    assert "4 runs graded again, 1 with another grade" in out and "0.12300 gold" in out
    assert main(["regrade", str(group), f"--data-dir={data}", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    (changed,) = [own for own in result["runs"] if own["changes"]]
    assert changed["run_id"] == values["run_id"] and changed["before"]["score"] == 0.123
    assert any(text.startswith("score 0.123, now ") for text in changed["changes"])
    assert {path: path.read_bytes() for path in before} == before, "nothing of the first result changes"
    assert len(list(group.glob("regraded-v1-*.json"))) == 2
    (group / "regraded-v1-broken.json").write_text('{"run_group": ')
    assert main(["report", str(group)]) == 0
    shown = capsys.readouterr().out
    assert "Graded again:" in shown and "4 runs graded again, 1 with another grade on 20" in shown
    row = next(line for line in shown.splitlines() if "0.12300 gold" in line)
    assert "cannot be read: regraded-v1-broken.json: " in shown
    assert row.startswith("smoke-diabetes") and f"{changed['after']['score']:.5f}" in row
    assert main(["regrade", str(group), f"--data-dir={group / 'nowhere'}"]) == 1
    assert "the data of smoke-diabetes is not here: `mlebench prepare -c smoke-diabetes`" in capsys.readouterr().out


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
        assert [path.name for path in folder.glob("*/code/*")] == ["solution.py"], "links do not come along"
    assert main(["export", str(group), "--to=mle-bench", "-o", str(target)]) == 2


def test_trajectories_are_exported_in_atif(group: Path, tmp_path: Path) -> None:
    assert main(["export", str(group), "--to=atif", "-o", str(tmp_path / "out")]) == 0
    (path,) = (tmp_path / "out").iterdir()
    trajectory = json.loads(path.read_text())
    assert trajectory["schema_version"].startswith("ATIF") and trajectory["steps"][-1]["message"] == "Done."


READ = """
import json, sys
from inspect_ai.log import read_eval_log

log = read_eval_log(sys.argv[1])
sample = log.samples[0]
print(json.dumps({
    "status": log.status, "samples": len(log.samples), "epochs": log.eval.config.epochs,
    "id": sample.id, "epoch": sample.epoch, "score": sample.scores["mle_bench"].value,
    "roles": [message.role for message in sample.messages], "tool": sample.messages[2].tool_calls[0].function,
    "medal": log.results.scores[0].metrics["mean"].value,
}))
"""


def exported_log(group: Path, target: Path) -> Path:
    assert main(["export", str(group), "--to=inspect", "-o", str(target)]) == 0
    return sorted(target.glob("*_a.json"))[0]


def test_an_inspect_log_has_samples_scores_and_messages(group: Path, tmp_path: Path) -> None:
    log = json.loads(exported_log(group, tmp_path / "out").read_text())
    record = next(record for record in read_group(group).records if (record.agent, record.seed) == ("a", 0))
    sample = log["samples"][0]
    assert (sample["id"], sample["epoch"]) == (COMPETITION.id, 1)
    assert sample["scores"]["mle_bench"]["value"] == record.score
    assert [message["role"] for message in sample["messages"]] == ["system", "user", "assistant", "tool", "assistant"]


def test_inspects_own_reader_reads_the_log(group: Path, tmp_path: Path) -> None:
    python = os.environ.get("MLEBENCH_TEST_INSPECT")
    if not python:
        pytest.skip("MLEBENCH_TEST_INSPECT names no Python that has inspect-ai")
    path = exported_log(group, tmp_path / "out")
    done = subprocess.run([python, "-c", READ, path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    record = next(record for record in read_group(group).records if (record.agent, record.seed) == ("a", 0))
    assert json.loads(done.stdout) == {
        "status": "success",
        "samples": 2,
        "epochs": 2,
        "id": COMPETITION.id,
        "epoch": 1,
        "score": record.score,
        "roles": ["system", "user", "assistant", "tool", "assistant"],
        "tool": "bash",
        "medal": float(record.report.any_medal),
    }
