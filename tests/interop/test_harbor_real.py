"""Exported tasks in the real Harbor, which runs in a container with the engine's socket (see ``.ci/harbor``)."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import threading
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pytest_mlebench import default_catalogue, read_group
from pytest_mlebench.cli.main import main
from pytest_mlebench.data.store import DataStore
from pytest_mlebench.extras.interop.harbor import check, verify
from pytest_mlebench.records.outcome import Report
from tests.extent import ALL, one_in
from tests.interop.real_harbor import REPOSITORY, ZEROS, harbor, trial

pytestmark = [pytest.mark.docker, pytest.mark.serial, pytest.mark.timeout(3600)]  # the default in CI is 15 minutes

TWINS = "twin:6021840293847561:micro"
FAMILIES = (
    "3d-object-detection-for-autonomous-vehicles",
    "AI4Code",
    "aptos2019-blindness-detection",
    "billion-word-imputation",
    "bms-molecular-translation",
    "chaii-hindi-and-tamil-question-answering",
    "champs-scalar-coupling",
    "denoising-dirty-documents",
    "freesound-audio-tagging-2019",
    "h-and-m-personalized-fashion-recommendations",
    "uw-madison-gi-tract-image-segmentation",
    "ventilator-pressure-prediction",
)
SMOKE = ("smoke-breast-cancer", "smoke-diabetes", "smoke-digits")
_LOOK_AROUND = (
    "find / -xdev -type f -not -path '/proc/*' -not -path '/sys/*' -exec sha256sum {} + >/logs/agent/digests.txt"
)
AGENTS = {
    "malformed": "printf 'x,y\\n1,2\\n' >/home/submission/submission.csv",
    "curious": f"{_LOOK_AROUND}; /home/validate_submission.sh /home/data/sample_submission.csv",
}
"""Actions of agents instead of the reference solution, by the folder of a copy of a smoke task."""


@pytest.fixture(scope="module")
def tasks(work: Path) -> Path:
    """The smoke split, twelve twins, a task with mounted data, and copies of a task for agents of all kinds."""
    folder = work / "tasks"
    assert main(["export", "--to=harbor", "-o", str(folder), "--split=smoke"]) == 0
    chosen = [word for id in FAMILIES for word in ("-c", id)]
    assert main(["export", "--to=harbor", "-o", str(folder), *chosen, *twins(work)]) == 0
    for name, script in AGENTS.items():
        shutil.copytree(folder / "smoke-diabetes", folder / name)
        (folder / name / "solution/solve.sh").write_text(f"#!/bin/sh\n{script}\n")
        (folder / name / "solution/submission.csv").unlink()
    real = default_catalogue()["leaf-classification"]
    DataStore(work / "real").prepare(real, synthetic=1).note(synthetic=None)
    assert main(["export", "--to=harbor", "-o", str(folder), "-c", real.id, f"--data-dir={work / 'real'}"]) == 0
    (folder / real.id / "solution").mkdir()
    copy = "#!/bin/sh\ncp /home/data/sample_submission.csv /home/submission/submission.csv\n"
    (folder / real.id / "solution/solve.sh").write_text(copy)
    return folder


@pytest.fixture(scope="module")
def job(work: Path, tasks: Path) -> Path:
    """The job of Harbor's agent ``oracle`` on all tasks."""
    harbor(
        work, "harbor", "run", "-p", str(tasks), "-a", "oracle", "-e", "docker", "-o", "jobs", "--job-name=all", "-n2"
    )
    return work / "jobs/all"


def twins(work: Path) -> tuple[str, str]:
    return f"--data={TWINS}", f"--data-dir={work / 'data'}"


def grade(work: Path, id: str, submission: Path, capsys: pytest.CaptureFixture[str]) -> Report:
    """The output of `mlebench grade-sample`."""
    capsys.readouterr()
    words = () if id in SMOKE else twins(work)
    assert main(["grade-sample", str(submission), id, "--json", *words]) == 0
    return Report(**json.loads(capsys.readouterr().out))


@pytest.mark.parametrize("id", [*SMOKE, *FAMILIES])
def test_the_oracle_gets_the_score_of_mlebench_grade(
    work: Path, tasks: Path, job: Path, id: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, result = trial(job, id)
    assert result["exception_info"] is None
    ours = grade(work, id, tasks / id / "solution/submission.csv", capsys)
    theirs = json.loads((folder / "verifier/report.json").read_text())["report"]
    assert theirs["score"] == ours.score, "to the last digit"
    assert result["verifier_result"]["rewards"] == verify.rewards(ours, "percentile")
    assert result["verifier_result"]["rewards"]["bronze"] == 1


@pytest.mark.parametrize("name", AGENTS)
def test_other_agents_get_zeros_and_no_error(job: Path, name: str) -> None:
    _, result = trial(job, name)
    assert result["exception_info"] is None
    assert result["verifier_result"]["rewards"] == ZEROS


def test_an_agent_that_does_nothing_gets_zeros(work: Path, tasks: Path) -> None:
    harbor(work, "harbor", "run", "-p", str(tasks / "smoke-digits"), "-a", "nop", "-e", "docker", "--job-name=nop")
    _, result = trial(work / "jobs/nop", "smoke-digits")
    assert result["exception_info"] is None
    assert result["verifier_result"]["rewards"] == ZEROS


def test_no_answers_are_readable_in_the_agents_container(tasks: Path, job: Path) -> None:
    folder, _ = trial(job, "curious")
    found = {line.split(maxsplit=1)[0] for line in (folder / "agent/digests.txt").read_text().splitlines()}
    assert len(found) > 1000, "it searched the whole image"
    verifier = [path for path in (tasks / "smoke-diabetes/tests").rglob("*") if path.is_file()]
    shared = {path.name for path in verifier if digest(path) in found and path.suffix != ".whl"}
    assert shared <= {"grade.py", "description.md", "sample_submission.csv", "requirements.txt"}
    assert "Submission is valid." in (folder / "agent/oracle.txt").read_text()


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_real_data_is_mounted(job: Path) -> None:
    _, result = trial(job, "leaf-classification")
    assert result["exception_info"] is None
    assert result["verifier_result"]["rewards"]["valid"] == 1


def test_the_imported_job_is_reported_audited_and_bundled(
    work: Path, job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    smoke = part_of(job, work / "jobs/smoke", (*SMOKE, *AGENTS))
    group = work / "runs/smoke"
    assert main(["import", str(smoke), "-o", str(group)]) == 0
    records = read_group(group).records
    assert sorted(r.competition_id for r in records if r.outcome.name == "gold") == sorted(SMOKE)
    assert sum(record.outcome.name in ("no_submission", "invalid_submission") for record in records) == len(AGENTS)
    assert not [note for record in records for note in record.sandbox.notes if "differs" in note]
    assert main(["report", str(group)]) == 0
    assert main(["audit", str(group)]) in (0, 1)
    assert main(["bundle", str(group), "-o", str(work / "smoke.tar.zst")]) == 0
    capsys.readouterr()
    main(["verify", "--json", str(work / "smoke.tar.zst")])
    card = json.loads(capsys.readouterr().out)
    assert {own["name"] for own in card["checks"] if own["result"] != "agrees"} == {"settings"}


def part_of(job: Path, folder: Path, names: Iterable[str]) -> Path:
    """The trials of some tasks as a separate job, because a run group has one kind of data."""
    folder.mkdir()
    for name in ("result.json", "lock.json"):
        shutil.copyfile(job / name, folder / name)
    for own, _ in (trial(job, name) for name in names):
        shutil.copytree(own, folder / own.name, symlinks=True)
    return folder


def test_twins_are_imported_with_the_data_folder_that_has_their_seed(work: Path, job: Path) -> None:
    own = part_of(job, work / "jobs/twins", FAMILIES)
    group = work / "runs/twins"
    assert main(["import", str(own), "-o", str(group), f"--data-dir={work / 'data'}"]) == 0
    records = read_group(group).records
    assert sorted(record.competition_id for record in records) == sorted(FAMILIES)
    assert all(record.report.any_medal and record.twin for record in records)
    assert not [note for record in records for note in record.sandbox.notes if "differs" in note]


_LOAD = """
import sys
from pathlib import Path
from harbor.models.task.task import Task
from verifiers.v1.tasksets.harbor.taskset import HarborConfig, parse_task

for folder in sorted(Path(sys.argv[1]).iterdir()):
    task = Task(folder)
    assert task.config.task.name == f"mlebench/{folder.name}"
    read = parse_task(folder, 0, HarborConfig())
    assert read.image == f"registry.example/{folder.name.lower()}" and read.verifier_image == f"{read.image}-verifier"
    assert read.verifier is not None and [own.source for own in read.artifacts] == ["/home/submission/submission.csv"]
    print(folder.name)
"""


def test_exported_twins_are_valid_for_harbor_and_the_reference_solution_wins(work: Path) -> None:
    """Harbor's model and that of verifiers load each task; our checker and verifier accept the solution.

    One in ten of the 82 is tried, or all of them (see ``tests.extent``).
    """
    folder = work / "everything"
    ids = one_in(10, sorted(own.id for own in default_catalogue() if own.split != "smoke"))
    words = [word for id in ids for word in ("-c", id)]
    more = ("--image-prefix=registry.example/", *twins(work))
    assert main(["export", "--to=harbor", "-o", str(folder), *words, *more]) == 0
    (work / "load.py").write_text(_LOAD)
    loaded = harbor(work, "python", "load.py", str(folder)).split()
    assert len(loaded) == len(ids)
    assert not ALL or len(ids) == 82
    failed = []
    for task in sorted(folder.iterdir()):
        solution = task / "solution/submission.csv"
        verdict = check.main(str(solution), task / "environment/mlebench/checker", task / "environment/data")
        logs = work / "logs"
        logs.mkdir(exist_ok=True)
        verify.main(task / "tests", solution, logs)
        if verdict or not json.loads((logs / "reward.json").read_text())["bronze"]:
            failed.append(task.name)
    assert not failed


class StandIn(BaseHTTPRequestHandler):
    """A provider whose model copies the sample submission, then reports that it is done."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        command = {"keystrokes": "cp $DATA_DIR/sample_submission.csv $SUBMISSION_DIR/submission.csv\n", "duration": 1.0}
        is_first = len(body["messages"]) == 1
        said = {"analysis": "", "plan": "", "commands": [command] * is_first, "task_complete": not is_first}
        message = {"role": "assistant", "content": json.dumps(said)}
        answer = {
            "id": "chat",
            "object": "chat.completion",
            "created": 1,
            "model": body["model"],
            "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
            "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
        }
        content = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_one_of_harbors_agents_is_run_and_imported(work: Path, tasks: Path) -> None:
    """``terminus-2`` calls a model in Harbor's process and types its responses into a terminal of the container."""
    with ThreadingHTTPServer(("127.0.0.1", 0), StandIn) as server:
        threading.Thread(target=server.serve_forever).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        harbor(work, "harbor", "run", "-p", str(tasks / "smoke-digits"), "-a", "terminus-2", "-m", "openai/gpt-4o",
            "--ak", f"api_base={url}", "-e", "docker", "--job-name=agent")  # fmt: skip
        server.shutdown()
    group = work / "runs/agent"
    assert main(["import", str(work / "jobs/agent"), "-o", str(group)]) == 0
    (record,) = read_group(group).records
    assert record.agent == "terminus-2/gpt-4o"
    assert (record.outcome.name, record.score) == ("no_medal", 0.08345)
    calls = record.llm["calls"]
    assert calls >= 2 and record.models_called == {"gpt-4o": calls}
    assert record.llm["tokens"] == {"input": 100 * calls, "cached": 0, "output": 10 * calls}
    assert record.cost is not None and record.cost > 0
    steps = json.loads((group / record.run_id / "trajectory.json").read_text())["steps"]
    assert "sample_submission.csv" in json.dumps(steps)


def test_the_documented_harbor_commands_are_valid(work: Path, tasks: Path) -> None:
    page = (REPOSITORY / "docs/harbor.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"harbor run [^`\n]+", page))
    assert len(shown) >= 3
    for command in shown:
        words = [str(tasks) if word in ("tasks", "real") else word for word in command.split()]
        harbor(work, *words, *(() if "-p" in words else ("-p", str(tasks))), "--print-config")


def test_harbors_lint_reports_no_problems(work: Path, tasks: Path) -> None:
    assert harbor(work, "harbor", "lint", *(str(tasks / id) for id in SMOKE)).strip() == ""
