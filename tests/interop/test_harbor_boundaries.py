"""In the real Harbor, agents cannot reach answers, other hosts or the grade; and tasks can pull data."""

from __future__ import annotations

import json
import os
import re
import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pytest_mlebench import default_catalogue, read_group
from pytest_mlebench.cli.main import main
from pytest_mlebench.data.store import DataStore
from tests.agents.scripted_model import ScriptedModel, Shell
from tests.data.remote_servers import KEYS, make_bucket, running_s3, s3_environment
from tests.interop.real_harbor import REPOSITORY, ZEROS, bridge, harbor, trial
from tests.llm.upstreams import Upstream

pytestmark = [pytest.mark.docker, pytest.mark.serial, pytest.mark.timeout(3600)]

SUBMISSION = "/home/submission/submission.csv"
_REACH = """
    for name in allowed.example denied.example; do
        curl -s -m 20 --resolve $name:PORT:HOST http://$name:PORT/ && echo " $name"
    done >/logs/agent/reached.txt
    exit 0"""
HOSTILE = {
    "forger": f"""
        ln -s /tests/data/prepared/private/test.csv {SUBMISSION}
        mkdir -p /logs/verifier /tests
        echo '{{"reward": 1, "gold": 1}}' | tee /logs/verifier/reward.json /logs/artifacts/reward.json
        echo 1 >/logs/verifier/reward.txt
        printf '#!/bin/sh\\necho 1 >/logs/verifier/reward.txt\\n' >/tests/test.sh
        exit 0""",
    "linked-folder": f"rm -rf {SUBMISSION} && ln -s /tests/data/prepared/private {SUBMISSION}",
    "folder": f"mkdir -p {SUBMISSION} && echo 1 >{SUBMISSION}/part",
    "fifo": f"mkfifo {SUBMISSION}",
    "device": f"ln -s /dev/zero {SUBMISSION}",
    "large": f"yes 1,2 | head -c 3000000 >{SUBMISSION}",
    "bomb": f"head -c 300000000 /dev/zero | gzip >{SUBMISSION}",
    "names": f"""
        touch "/home/submission/\\$(touch x); -rf" "/home/submission/$(printf 'new\\nline')" "/home/submission/--help"
        cp /home/data/sample_submission.csv "{SUBMISSION} " """,
    "vandal": f"""
        tools=/opt/mlebench
        for file in /home/validate_submission.sh $tools/checker/check.py $tools/grading/venv/bin/python; do
            {{ echo 'exit 0' >$file || rm -f $file || mv $file /tmp || chmod 777 $file; }} && echo "changed $file"
        done
        mv /home/submission /home/other && echo "changed /home"
        echo x >/home/data/test.csv && echo "changed /home/data"
        printf 'x,y\\n1,2\\n' >{SUBMISSION}
        /home/validate_submission.sh {SUBMISSION}""",
}
"""Actions of agents, by the folder of a copy of a smoke task."""
CODING_AGENT = "claude-code"


class Here(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"reached")

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture(scope="module")
def servers(work: Path) -> Iterator[tuple[str, int]]:
    """A bucket with its environment variables, and the address of a server that agents try to reach."""
    host = bridge()
    with running_s3(work, host) as (_, port), ThreadingHTTPServer((host, 0), Here) as server:
        threading.Thread(target=server.serve_forever).start()
        with pytest.MonkeyPatch.context() as patch:
            for name, value in s3_environment(port, host).items():
                patch.setenv(name, value)
            yield host, server.server_address[1]
        server.shutdown()


@pytest.fixture(scope="module")
def tasks(work: Path, servers: tuple[str, int]) -> Path:
    folder, base = work / "tasks", work / "exported"
    assert main(["export", "--to=harbor", "-o", str(base / "open"), "-c", "smoke-diabetes"]) == 0
    for name, script in HOSTILE.items():
        solve(shutil.copytree(base / "open/smoke-diabetes", folder / name), script)
    about = folder / "large/tests/task.json"
    about.write_text(json.dumps(json.loads(about.read_text()) | {"max_submission_bytes": 1 << 20}))
    for name, option in (("offline", "--network=none"), ("some-hosts", "--allow-host=allowed.example")):
        assert main(["export", "--to=harbor", "-o", str(base / name), "-c", "smoke-diabetes", option]) == 0
        script = _REACH.replace("HOST", servers[0]).replace("PORT", str(servers[1]))
        solve(shutil.copytree(base / name / "smoke-diabetes", folder / name), script)
    solve(shutil.copytree(base / "open/smoke-diabetes", folder / "any-host"), script)
    real = default_catalogue()["leaf-classification"]
    make_bucket("prepared")
    DataStore(work / "real").prepare(real, synthetic=1).note(synthetic=None)
    url = "s3://prepared/mlebench"
    assert main(["push", url, "-c", real.id, f"--data-dir={work / 'real'}"]) == 0
    words = ["-c", real.id, f"--data-source={url}", "--description=obfuscated", f"--data-dir={work / 'none'}"]
    assert main(["export", "--to=harbor", "-o", str(base / "pulled"), *words]) == 0
    (pulled,) = (base / "pulled").iterdir()
    look = "id -un; env; cat /proc/self/mountinfo; grep -ril leaf.classification /home /opt/mlebench/checker"
    solve(shutil.copytree(pulled, folder / "pulled"), f"{look}; cp /home/data/sample_submission.csv {SUBMISSION}")
    return folder


def solve(task: Path, script: str) -> None:
    """Replace the reference solution by a script that acts as the agent."""
    (task / "solution").mkdir(exist_ok=True)
    (task / "solution/solve.sh").write_text(f"#!/bin/sh\n{script}\n")
    (task / "solution/submission.csv").unlink(missing_ok=True)


@pytest.fixture(scope="module")
def job(work: Path, tasks: Path) -> Path:
    variables = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    words = ("-p", str(tasks), "-a", "oracle", "-e", "docker", "-o", "jobs", "--job-name=all", "-n2")
    harbor(work, "harbor", "run", *words, variables=variables)
    return work / "jobs/all"


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_submissions_get_zeros_and_no_error(job: Path, name: str) -> None:
    _, result = trial(job, name)
    assert result["exception_info"] is None
    assert result["verifier_result"]["rewards"] == ZEROS


def test_hostile_submissions_are_imported(work: Path, job: Path) -> None:
    """Trials with pipes are left out, since they cannot be copied. Links are copied as links."""
    own = work / "jobs/hostile"
    own.mkdir()
    for name in ("result.json", "lock.json"):
        shutil.copyfile(job / name, own / name)
    for name in HOSTILE:
        folder, _ = trial(job, name)
        if not any(path.is_fifo() for path in folder.rglob("*")):
            shutil.copytree(folder, own / folder.name, symlinks=True)
    assert main(["import", str(own), "-o", str(work / "runs/hostile")]) == 0
    outcomes = {record.outcome.name for record in read_group(work / "runs/hostile").records}
    assert outcomes <= {"no_submission", "invalid_submission"}


def test_agents_cannot_change_the_checker_or_the_data(job: Path) -> None:
    folder, _ = trial(job, "vandal")
    said = (folder / "agent/oracle.txt").read_text()
    assert "changed" not in said
    assert "Submission invalid!" in said


@pytest.mark.parametrize(
    ("name", "reached"),
    [("any-host", ["allowed.example", "denied.example"]), ("some-hosts", ["allowed.example"]), ("offline", [])],
)
def test_agents_reach_only_the_allowed_hosts(job: Path, name: str, reached: list[str]) -> None:
    folder, result = trial(job, name)
    assert result["exception_info"] is None
    assert re.findall(r"reached (\S+)", (folder / "agent/reached.txt").read_text()) == reached


def test_data_is_pulled_without_revealing_credentials_or_the_competition_to_the_agent(job: Path, work: Path) -> None:
    folder, result = trial(job, "pulled")
    assert result["exception_info"] is None
    assert result["verifier_result"]["rewards"]["valid"] == 1
    said = (folder / "agent/oracle.txt").read_text()
    assert said.startswith("nonroot\n")
    assert "COMPETITION_ID=competition-" in said
    assert "AWS_" not in said and KEYS["AWS_SECRET_ACCESS_KEY"] not in said
    assert "leaf" not in said.lower().replace("leaf_", "")
    noted = json.loads((folder / "verifier/report.json").read_text())
    assert noted["task"]["competition_id"] == "leaf-classification"
    sample = DataStore(work / "real").dataset(default_catalogue()["leaf-classification"]).sample_submission
    words = ["grade-sample", str(sample), "leaf-classification", f"--data-dir={work / 'real'}"]
    assert main(words) == 0
    assert noted["report"]["score"] is not None


def test_a_coding_agent_installed_in_the_image_solves_a_task(work: Path, tasks: Path) -> None:
    """Runs Claude Code with a stand-in for its provider. Harbor installs it only if the image lacks it."""
    task = shutil.copytree(work / "exported/open/smoke-diabetes", work / "installed/smoke-diabetes")
    (pinned,) = re.findall(r"VERSION=(\S+)", (REPOSITORY / "agents/claude-code/Dockerfile").read_text())
    shutil.copyfile(REPOSITORY / "environment/npm-install", task / "environment/npm-install")
    with (task / "environment/Dockerfile").open("a") as file:
        file.write("COPY npm-install /usr/local/bin/npm-install\n")
        file.write(f"RUN bash /usr/local/bin/npm-install @anthropic-ai/claude-code@{pinned}\n")
    with Upstream(host=bridge()) as provider:
        steps: list[Shell] = [Shell(f"id -un >/logs/agent/who.txt; cp $DATA_DIR/sample_submission.csv {SUBMISSION}")]
        provider.play = ScriptedModel(steps=[*steps])
        variables = {"ANTHROPIC_API_KEY": "sk-stand-in", "ANTHROPIC_BASE_URL": provider.url}
        words = ("-p", str(task), "-a", CODING_AGENT, "-m", "anthropic/claude-haiku-4-5", "-e", "docker")
        harbor(work, "harbor", "run", *words, "--job-name=coding", variables=variables)
        assert provider.seen
    folder, result = trial(work / "jobs/coding", "smoke-diabetes")
    assert result["exception_info"] is None
    assert result["verifier_result"]["rewards"]["valid"] == 1
    assert (folder / "agent/who.txt").read_text() == "nonroot\n"
    group = work / "runs/coding"
    assert main(["import", str(work / "jobs/coding"), "-o", str(group)]) == 0
    (record,) = read_group(group).records
    assert (record.agent, record.score) == (f"{CODING_AGENT}/claude-haiku-4-5", 72.61873)
    assert record.llm["tokens"]["output"] > 0
