"""Sessions that submit their runs to an engine."""

from __future__ import annotations

import inspect
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pytest_mlebench.extras.engines.local import LocalEngine
from pytest_mlebench.extras.engines.plan import ALIVE, JobPlan, job_folder, open_plans, write_plan
from pytest_mlebench.io.processes import start_time
from pytest_mlebench.records.record import JOBS, RUNNING, RunKey, RunRecord
from pytest_mlebench.results import read_group

pytestmark = pytest.mark.full

LOCAL = ("--cluster=local", "--max-parallel=2", "--time-limit=30s")


class Session(subprocess.Popen[str]):
    """A session that is killed if its test fails; ``Popen`` in ``with`` would wait for its end."""

    def __exit__(self, kind: type[BaseException] | None, *rest: Any) -> None:
        if kind is not None:
            self.kill_all()
        super().__exit__(kind, *rest)

    def kill_all(self) -> None:
        """Kill the session and all processes that it started, except its jobs."""
        if self.poll() is None:
            os.killpg(self.pid, signal.SIGKILL)


class Sessions:
    """Successive sessions of the group ``toys``, in separate processes."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.group = folder, folder / "reports/toys"

    def start(self, *options: str, agents: tuple[str, ...] = ()) -> Session:
        paths = ["competitions/toy-parity", "--run-group=toys"] if agents else ["--resume=toys"]
        chosen = [f"--agent=toy/{agent}" for agent in agents]
        return Session(
            [sys.executable, "-m", "pytest", *paths, *chosen, "-p", "no:cacheprovider", "-v", *options],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, *options: str, agents: tuple[str, ...] = ()) -> str:
        with self.start(*options, agents=agents) as session:
            output, _ = session.communicate(timeout=300)
        return output

    def records(self) -> dict[str, RunRecord]:
        """Records by agent name. Asserts that each run has exactly one."""
        group = read_group(self.group)
        assert len(list(self.group.glob("*/run.json"))) == len(group.records), "a run was done twice"
        assert not group.broken
        return {record.agent.removeprefix("toy/"): record for record in group.records}

    def wait_for_run(self, agent: str) -> Path:
        """Wait until a run's agent is working. Returns the run directory."""
        found: Path = wait_until(lambda: next(self.group.glob(f"*{agent}-0-*/{RUNNING}"), None))
        return found.parent

    def jobs_folder(self, agent: str) -> Path:
        return job_folder(self.group, RunKey(f"toy/{agent}", "toy-parity", 0))

    def process_of(self, agent: str) -> int:
        alive = json.loads((self.jobs_folder(agent) / ALIVE).read_text())
        return int(alive["owner"]["mlebench.pid"])


def wait_until(found: Callable[[], Any], seconds: float = 180.0) -> Any:
    deadline = time.monotonic() + seconds
    while not (value := found()):
        assert time.monotonic() < deadline, f"waited {seconds:g} s for {inspect.getsource(found).strip()}"
        time.sleep(0.05)
    return value


@pytest.fixture
def sessions(project: pytest.Pytester) -> Iterator[Sessions]:
    own = Sessions(project.path)
    yield own
    jobs = [job for _, job in open_plans(own.group)]
    LocalEngine().cancel(jobs)


def test_a_session_whose_output_is_a_file_prints_progress(sessions: Sessions) -> None:
    """It prints the numbers of finished and running runs, medals, time, and the command that shows more."""
    with sessions.start(*LOCAL, "--heartbeat=1s", agents=("gold", "sleeps")) as session:
        assert session.stdout is not None
        found = next((line for line in session.stdout if "1 of 2 runs finished, 1 running" in line), "")
        session.send_signal(signal.SIGINT)
        session.communicate(timeout=60)
    assert re.search(r"mlebench: 1 of 2 runs finished, 1 running; 1 gold; [\d:.]+( s)?; mlebench watch reports/", found)


def test_runs_are_reported_when_they_end_and_recorded_as_usual(sessions: Sessions) -> None:
    output = sessions.run(*LOCAL, "--max-parallel=3", agents=("slow", "gold", "crashes"))
    assert "2 gold" in output and "1 crashed" in output, output
    words = [line for line in output.splitlines() if "::toy/" in line and "%" in line]
    assert "toy/slow" in words[-1], "the longest run was submitted first"
    records = sessions.records()
    assert {agent: record.outcome.value for agent, record in records.items()} == {
        "slow": "gold",
        "gold": "gold",
        "crashes": "crashed",
    }
    job = records["gold"].job
    assert job["engine"] == "local" and job["attempt"] == 0 and job["interrupted"] == []
    manifest = json.loads((sessions.group / "manifest.json").read_text())
    assert manifest["sessions"][-1]["cluster"] == {"engine": "local"}
    again = sessions.run()
    assert "2 gold" in again and "3 runs of this group are finished" in again


def test_killing_a_session_loses_no_run(sessions: Sessions) -> None:
    with sessions.start(*LOCAL, agents=("slow", "sleeps-late", "gold")) as session:
        running = sessions.wait_for_run("sleeps-late")
        sessions.wait_for_run("slow")
        session.kill_all()
    refused = sessions.run("--cluster=none")
    assert "1 run of" in refused or "2 runs of" in refused, refused
    assert "continue them with --cluster=local" in refused
    output = sessions.run()
    assert "3 gold" in output, output
    records = sessions.records()
    assert records["sleeps-late"].run_id == running.name, "the run was restarted"
    assert all(record.job["attempt"] == 0 for record in records.values())


def test_ctrl_c_ends_the_jobs_and_detach_leaves_them(sessions: Sessions) -> None:
    with sessions.start(*LOCAL, agents=("sleeps-late",)) as session:
        first = sessions.wait_for_run("sleeps-late")
        process = sessions.process_of("sleeps-late")
        session.send_signal(signal.SIGINT)
        output, _ = session.communicate(timeout=120)
    assert "ending 1 job of local" in output and not (first / "run.json").exists(), output
    assert start_time(process) == "", "it is still running"
    with sessions.start("--detach") as session:
        second = wait_until(lambda: set(sessions.group.glob(f"*/{RUNNING}")) - {first / RUNNING}).pop().parent
        session.send_signal(signal.SIGINT)
        output, _ = session.communicate(timeout=120)
    assert "press Ctrl-C to leave" in output and "1 run continues without this session" in output, output
    watched = subprocess.run(
        [sys.executable, "-m", "pytest_mlebench.cli", "watch", "toys", "--once"],
        cwd=sessions.folder,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "0 of 1 runs finished, 1 running" in watched and "local " in watched, watched
    output = sessions.run()
    record = sessions.records()["sleeps-late"]
    assert record.run_id == second.name and record.outcome.value == "gold", output
    assert record.job["interrupted"] == [first.name]


def test_a_killed_job_is_resubmitted_and_finally_an_error(sessions: Sessions) -> None:
    with sessions.start(*LOCAL, "--max-requeues=1", agents=("sleeps-late",)) as session:
        killed: list[str] = []
        for _ in range(2):
            run = wait_until(
                lambda: {path.parent.name for path in sessions.group.glob(f"*/{RUNNING}")} - set(killed)
            ).pop()
            killed.append(run)
            os.kill(sessions.process_of("sleeps-late"), signal.SIGKILL)
        output, _ = session.communicate(timeout=120)
    assert "its job was lost" in output and "1 error" in output, output
    record = sessions.records()["sleeps-late"]
    assert record.outcome.value == "error" and "lost 2 times" in str(record.error)
    assert record.job["attempt"] == 1 and killed[0] in record.job["interrupted"]
    again = sessions.run("--retry-failed=error", "--time-limit=8s", "--allow-changes")
    assert "1 gold" in again, again


def test_a_node_that_cannot_execute_a_run_reports_why(sessions: Sessions) -> None:
    sessions.run(*LOCAL, agents=("gold",))
    plan = sessions.jobs_folder("gold") / "plan.json"
    ended = next((sessions.group / JOBS / "ended").glob("*.json"))
    command = [sys.executable, "-m", "pytest_mlebench.cli", "run-one", str(plan)]
    over = subprocess.run(command, capture_output=True, text=True, check=False)
    assert over.returncode == 0 and "the run has ended" in over.stderr, "a run was done twice"
    ended.unlink()
    again = subprocess.run(command, capture_output=True, text=True, check=False)
    assert again.returncode == 0 and ended.exists() and len(sessions.records()) == 1, "a run was done twice"
    changed = plan.read_text().replace('"version": "', '"version": "9.').replace(ended.stem, "mlebench-other")
    plan.write_text(changed)
    other = subprocess.run(command, capture_output=True, text=True, check=False)
    assert other.returncode == 2 and "the session 9." in other.stderr and "Traceback" not in other.stderr
    assert "the session 9." in json.loads(ended.with_name("mlebench-other.json").read_text())["error"]
    plan.write_text("{}")
    broken = subprocess.run(command, capture_output=True, text=True, check=False)
    assert broken.returncode == 2 and "is not the plan of a run" in broken.stderr
    assert len(sessions.records()) == 1


def test_jobs_of_another_engine_are_an_error_before_the_first_submission(sessions: Sessions) -> None:
    run: dict[str, Any] = {"agent": "toy/slow", "competition_id": "toy-parity", "seed": 0}
    job: dict[str, Any] = {"competition_file": "", "options": {}, "version": "", "agent_digest": ""}
    plan = JobPlan(name="theirs", engine="elsewhere", **run, **job)
    write_plan(sessions.jobs_folder("slow"), plan)
    output = sessions.run(*LOCAL, agents=("gold", "slow"))
    assert "submitted to --cluster=elsewhere by an earlier session" in output and "INTERNALERROR" not in output
    assert [plan.name for plan, _ in open_plans(sessions.group)] == ["theirs"]
    assert not sessions.jobs_folder("gold").exists()


def test_options_without_effect_are_rejected(sessions: Sessions) -> None:
    for options, said in (
        (("--cluster=local", "-n2"), "leave out -n"),
        (("--max-parallel=2",), "add --cluster=local, slurm or ray"),
        (("--cluster=local", "--cluster-options=--partition=x"), "has no effect with --cluster=local"),
        (("--cluster=slurm", "--cluster-options=--partition='x"), "is invalid: No closing quotation"),
        (("--cluster=slurm", "--cluster-options=--output=x"), "--cluster-options: leave out --output"),
        (("--cluster=pbs",), "is not one of none, local, ray, slurm"),
        (("--cluster=slurm", "--cluster-address=x:1"), "has no effect with --cluster=slurm"),
        (("--cluster=ray", "--cluster-setup=tox.ini"), "has no effect with --cluster=ray"),
    ):
        output = sessions.run(*options, agents=("gold",))
        assert said in output and "Traceback" not in output and "INTERNALERROR" not in output, output


def test_keys_come_from_a_file_that_only_the_user_can_read(sessions: Sessions) -> None:
    keys = sessions.folder / "keys"
    keys.write_text("# mine\nexport TOY_TOKEN='s3cr3t-t0k3n'\n")
    options = (*LOCAL, f"--cluster-keys={keys}")
    keys.chmod(0o644)
    assert f"chmod 600 {keys}" in sessions.run(*options, agents=("secret",))
    keys.chmod(0o600)
    assert "1 gold" in sessions.run(*options, agents=("secret",))
    for path in sessions.group.rglob("*"):
        if path.is_file():
            with suppress(UnicodeDecodeError):
                assert "s3cr3t-t0k3n" not in path.read_text(), path


def test_a_run_that_ends_while_a_session_resumes_is_not_repeated(sessions: Sessions) -> None:
    with sessions.start(*LOCAL, agents=("slow", "sleeps-late")) as session:
        sessions.wait_for_run("slow")
        sessions.wait_for_run("sleeps-late")
        session.kill_all()
    (sessions.folder / "conftest.py").write_text(
        "import time\n"
        "from pathlib import Path\n"
        "def pytest_collection_finish(session):\n"  # by now, it has read which runs are finished
        "    deadline = time.monotonic() + 100\n"
        "    while len(list(Path('reports/toys/.jobs/ended').glob('*'))) < 2 and time.monotonic() < deadline:\n"
        "        time.sleep(0.1)\n"
    )
    output = sessions.run()
    assert "2 gold" in output, output
    assert len(sessions.records()) == 2
