"""The record and files of a run for any report of its sandbox."""

from __future__ import annotations

import errno
import json
import os
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path

import pytest

from pytest_mlebench.agents import Agent, AgentRegistry, Permissions
from pytest_mlebench.catalog import Competition
from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.data.store import DataStore
from pytest_mlebench.errors import SandboxError
from pytest_mlebench.llm.ledger import Call, Ledger
from pytest_mlebench.llm.prices import Tokens
from pytest_mlebench.records.group import mark_running
from pytest_mlebench.records.outcome import Connection, SandboxAccount, Validation
from pytest_mlebench.records.record import SUBMISSION, RunKey, RunRecord, bounded
from pytest_mlebench.results import read_group
from pytest_mlebench.runs.run import RunOptions, interrupted_runs, record_lost, run_agent
from pytest_mlebench.sandbox import Ending, Execution, Task

TOYS = Path(__file__).parents[1] / "toys"


@dataclass
class ScriptedSandbox:
    """A sandbox with a given submission and a given account of the run."""

    execution: Execution | BaseException
    submission: str | None = None
    name: str = "scripted"

    def check(self, agent: Agent) -> None: ...

    def prepare(self, agent: Agent) -> None: ...

    def run(self, task: Task) -> Execution:
        if self.submission is not None:
            (task.run_dir / SUBMISSION).parent.mkdir()
            (task.run_dir / SUBMISSION).write_text(self.submission)
        if isinstance(self.execution, BaseException):
            raise self.execution
        return self.execution


KEY = RunKey("toy/gold", "toy-parity", 0)


def toy(tmp_path: Path) -> tuple[Competition, Dataset]:
    competition = Competition.load(TOYS / "competitions/toy-parity/competition.yaml")
    return competition, DataStore(tmp_path / "data").prepare(competition)


def run(sandbox: ScriptedSandbox, tmp_path: Path) -> RunRecord:
    competition, dataset = toy(tmp_path)
    agent = AgentRegistry(TOYS / "agents")["toy/gold"]
    return run_agent(agent, competition, dataset, sandbox, RunOptions(folder=tmp_path / "runs/group"))


@pytest.mark.full
@pytest.mark.parametrize("character", ["x", "\x00", "\U0001f600"], ids=["letters", "controls", "emoji"])
def test_a_record_stays_below_one_megabyte_for_any_agent(tmp_path: Path, character: str) -> None:
    long = character * 20_000
    account = SandboxAccount(
        name="docker",
        connections=tuple(Connection(at=k, host=long[:255], port=443, method=long) for k in range(3000)),
        unrecorded_connections=5,
        validations=tuple(Validation(at=k, verdict=long) for k in range(1000)),
        left_out=(long,) * 1000,
        notes=(long,) * 1000,
    )
    execution = Execution(ending=Ending.CRASHED, seconds=1.0, detail=long, sandbox=account)
    record = run(ScriptedSandbox(execution, submission=f"{long},b\n1,2\n"), tmp_path)
    (path,) = tmp_path.glob("runs/group/*/run.json")
    assert path.stat().st_size < 1_000_000
    assert record.outcome == "invalid_submission"
    found = record.sandbox
    assert len(found.connections) + found.unrecorded_connections == 3005
    assert len(found.left_out) + found.left_out_unnamed == 1000
    assert found.validations[-1].at == 999, "the last validations are kept"
    assert found.notes[-1] == f"{1000 - len(found.validations)} earlier validations are not recorded"
    assert record.detail.endswith("…")
    assert read_group(path.parents[1]).records == (record,)


def test_model_usage_is_bounded_in_the_record(tmp_path: Path) -> None:
    record = run(ScriptedSandbox(Execution(ending=Ending.FINISHED, seconds=1.0)), tmp_path)
    models = {f"{k} {'x' * 5000}": {"calls": 1, "cost": None} for k in range(5000)}
    kept = bounded(replace(record, llm={"calls": 5000, "models": models}))
    kept.write(tmp_path)
    assert (tmp_path / "run.json").stat().st_size < 1_000_000
    assert kept.llm["calls"] == 5000 and 0 < len(kept.llm["models"]) < 5000
    assert bounded(kept) == kept


def test_an_account_of_usual_size_is_recorded_unchanged(tmp_path: Path) -> None:
    account = SandboxAccount(
        name="docker",
        connections=tuple(Connection(at=k, host="api.example.com", port=443, allowed=True) for k in range(500)),
        validations=tuple(Validation(at=k, verdict="The submission is valid.") for k in range(200)),
        left_out=("logs/socket (no regular file)",),
        notes=("the disk limit is for each file",),
    )
    execution = Execution(ending=Ending.FINISHED, seconds=1.0, detail="", sandbox=account)
    record = run(ScriptedSandbox(execution), tmp_path)
    assert record.sandbox == account and record.outcome == "no_submission"


@pytest.mark.parametrize(
    ("problem", "error"),
    [
        (SandboxError("the engine is gone"), "the engine is gone"),
        (RecursionError("too deep"), "RecursionError: too deep"),
    ],
)
def test_an_error_of_the_harness_is_recorded_and_not_raised(tmp_path: Path, problem: Exception, error: str) -> None:
    record = run(ScriptedSandbox(problem), tmp_path)
    assert (record.outcome, record.error, record.ending) == ("error", error, Ending.NOT_STARTED)
    (path,) = tmp_path.glob("runs/group/*/run.json")
    assert json.loads(path.read_text())["outcome"] == "error"
    assert not list(tmp_path.glob("runs/group/*/running.json"))


def test_an_interruption_is_raised_and_leaves_no_record(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(ScriptedSandbox(KeyboardInterrupt()), tmp_path)
    assert interrupted_runs(tmp_path / "runs/group", KEY)


@pytest.mark.parametrize(
    "name", ["pytest_mlebench.records.record.write_json", "pytest_mlebench.records.group.write_json"]
)
def test_a_run_that_a_full_disk_keeps_from_its_record_counts_as_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def full(path: Path, _: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(name, full)
    with pytest.raises(SandboxError, match="No space left on device"):
        run(ScriptedSandbox(Execution(ending=Ending.FINISHED, seconds=1.0)), tmp_path)
    is_listed = name.endswith("record.write_json")
    assert bool(interrupted_runs(tmp_path / "runs/group", KEY)) is is_listed


def test_the_record_of_a_lost_run_has_its_model_calls_and_permissions(tmp_path: Path) -> None:
    options = RunOptions(folder=tmp_path / "group", permissions=Permissions(allow_secrets=["TOKEN"]))
    folder = AgentRegistry(TOYS / "agents")["toy/gold"]
    agent = replace(
        folder, env_vars={"TOKEN": "${{ secrets.TOKEN }}", "OPENAI_API_KEY": "${{ secrets.OPENAI_API_KEY }}"}
    )
    ledger = Ledger(tmp_path / "group/run", record="calls")
    for number, cost in enumerate(("1.25", "0.5")):
        call = Call(number=number, provider="openai", kind="generate", model="m", status=200, cost=Decimal(cost))
        ledger.write(replace(call, tokens=Tokens(input=10, output=1)))
    ledger.close()
    key = RunKey(agent.id, KEY.competition_id, 0)
    with suppress(KeyboardInterrupt), mark_running(tmp_path / "group/run", key, worker="", time_limit=9.0):
        raise KeyboardInterrupt
    competition, dataset = toy(tmp_path)
    record = record_lost(
        agent, competition, dataset, options, seed=0, ending=Ending.OUT_OF_MEMORY, detail="the node ran out of memory"
    )
    assert (record.run_id, record.outcome, record.cost) == ("run", "out_of_memory", 1.75)
    assert record.llm["gateway"] == "on" and record.llm["providers"] == ["openai"]
    assert record.models_called == {"m": 2} and record.usage.tokens["input"] == 20
    assert record.permissions["granted"] == {"allow_secrets": ["TOKEN"]}
    assert record.permissions["used"] == {"secrets": ["TOKEN"]}
    assert not (tmp_path / "group/run/running.json").exists()


@pytest.mark.parametrize("is_confined", [True, False])
def test_the_record_notes_if_the_kernel_does_not_keep_the_checker_from_the_answers(
    is_confined: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "pytest_mlebench.grading.grader.prepare",
        lambda *_: {"ready": True, "confinement": {"landlock": 3 * is_confined}},
    )
    record = run(ScriptedSandbox(Execution(ending=Ending.FINISHED, seconds=1)), tmp_path)
    assert any("no Landlock" in note for note in record.sandbox.notes) is not is_confined


def test_the_record_contains_the_confinement_of_checker_and_grader(tmp_path: Path) -> None:
    record = run(ScriptedSandbox(Execution(ending=Ending.FINISHED, seconds=1)), tmp_path)
    (path,) = tmp_path.glob("runs/group/*/run.json")
    found = json.loads(path.read_text())["confinement"]
    assert found == record.confinement and set(found) == {"checker", "grader"}
    for process in found.values():
        assert process["memory"] == 8 << 30 and process["core"] == 0
    # A third-party grader is confined like the checker: both record the kernel's Landlock version, if any.
    assert isinstance(found["checker"]["landlock"], int) and found["grader"]["landlock"] == found["checker"]["landlock"]
    for process in found.values():
        assert process["no_new_privileges"] or not process["landlock"]
