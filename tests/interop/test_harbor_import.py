"""``mlebench import``: Harbor jobs, which may be untrusted, become run groups."""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_mlebench import Bench, read_group
from pytest_mlebench.cli.main import main
from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.extras.interop.harbor.job import JobError, read_trial
from pytest_mlebench.extras.viewer.app import application
from pytest_mlebench.extras.viewer.index import RunIndex
from pytest_mlebench.records.group import RunGroup
from pytest_mlebench.records.outcome import Ending
from pytest_mlebench.records.record import RUN_LOG, SUBMISSION
from pytest_mlebench.results.profile import State, fairness_profile
from tests.interop.harbor_jobs import TASK, add_trial, make_job
from tests.viewer.conftest import asker

STEPS = [
    {"step_id": 1, "source": "user", "message": "solve it"},
    {"step_id": 2, "source": "agent", "message": "done", "metrics": {"prompt_tokens": 5, "completion_tokens": 2}},
]
TRAJECTORY = {"schema_version": "ATIF-v1.6", "session_id": "s", "agent": {"name": "a", "version": "1"}, "steps": STEPS}


@pytest.fixture
def job(tmp_path: Path) -> Path:
    return make_job(tmp_path / "jobs/first")


@pytest.fixture
def dataset() -> Dataset:
    with Bench() as bench:
        return bench.prepare("smoke-diabetes")[0]


def imported(job: Path, *more: str) -> RunGroup:
    group = job.parent.parent / "runs/mine"
    assert main(["import", str(job), "-o", str(group), *more]) == 0
    return read_group(group)


def refused(job: Path, capsys: pytest.CaptureFixture[str], *more: str) -> str:
    capsys.readouterr()
    group = job.parent.parent / "runs/refused"
    assert main(["import", str(job), "-o", str(group), *more]) in (1, 2)
    assert not group.exists(), "nothing is left behind"
    said = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("warning: ")]
    assert len(said) == 1, said
    return said[0]


def test_submissions_are_regraded_and_attempts_become_seeds(job: Path, dataset: Dataset) -> None:
    add_trial(job, "smoke-diabetes__second", minute=2, submission=dataset.sample_submission)
    add_trial(job, "smoke-diabetes__first", minute=1, submission=dataset.perfect_submission)
    group = imported(job)
    assert [(r.agent, r.seed, r.outcome.name, r.score) for r in group.records] == [
        ("mini-swe-agent/gpt-5", 0, "gold", 0.0),
        ("mini-swe-agent/gpt-5", 1, "no_medal", 72.61873),
    ]
    first = group.records[0]
    assert (first.seconds, first.ending) == (60.0, Ending.FINISHED)
    assert first.agent_definition["harbor"] == {
        "name": "mini-swe-agent", "version": "2.1", "model": "gpt-5", "provider": "openai"
    }  # fmt: skip
    assert (group.folder / first.run_id / SUBMISSION).read_bytes() == dataset.perfect_submission.read_bytes()
    log = (group.folder / first.run_id / RUN_LOG).read_text()
    assert "the trial began" in log and "the agent thinks" in log


@pytest.mark.parametrize(
    ("exception", "began", "outcome"),
    [
        ("", True, "no_submission"),
        ("AgentTimeoutError", True, "timed_out"),
        ("SandboxLikelyOutOfMemoryError", True, "out_of_memory"),
        ("NonZeroAgentExitCodeError", True, "crashed"),
        ("AnErrorOfALaterHarbor", True, "crashed"),
        ("VerifierTimeoutError", True, "no_submission"),
        ("SandboxBuildFailedError", False, "error"),
        ("AgentSetupTimeoutError", False, "error"),
        ("CancelledError", True, "error"),
    ],
)
def test_a_harbor_exception_determines_the_outcome(job: Path, exception: str, began: bool, outcome: str) -> None:
    add_trial(job, exception=exception, began=began)
    (record,) = imported(job).records
    assert record.outcome.name == outcome
    assert exception in f"{record.detail}{record.error}"


def test_values_that_harbor_does_not_record_are_unknown(job: Path, dataset: Dataset) -> None:
    add_trial(job, submission=dataset.perfect_submission, usage={"n_input_tokens": 10, "cost_usd": 0.5})
    group = imported(job)
    states = {line.name: line.state for line in fairness_profile(group)}
    for name in ("description", "time", "hardware", "network", "models called", "provider tools", "test-set feedback",
        "external knowledge", "sessions", "audit"):  # fmt: skip
        assert states[name] is State.unknown, name
    assert group.manifest.run_by == "harbor 0.25.0"


def test_the_report_names_harbor_as_the_runner(job: Path, dataset: Dataset, capsys: pytest.CaptureFixture[str]) -> None:
    add_trial(job, submission=dataset.perfect_submission)
    group = imported(job)
    capsys.readouterr()
    assert main(["report", str(group.folder)]) == 0
    assert "run by harbor 0.25.0, imported; setting not recorded" in " ".join(capsys.readouterr().out.split())


def test_tokens_cost_and_calls_are_imported(job: Path) -> None:
    usage = {"n_input_tokens": 100, "n_cache_tokens": 40, "n_output_tokens": 7, "cost_usd": 0.25}
    add_trial(job, usage=usage, trajectory=TRAJECTORY)
    group = imported(job)
    (record,) = group.records
    assert record.cost == 0.25
    assert record.llm["tokens"] == {"input": 100, "cached": 40, "output": 7}
    assert record.models_called == {"gpt-5": 1}
    trajectory = json.loads((group.folder / record.run_id / "trajectory.json").read_text())
    assert trajectory["steps"] == STEPS


def test_a_cost_is_known_without_the_number_of_calls(job: Path) -> None:
    add_trial(job, usage={"cost_usd": 0.25})
    (record,) = imported(job).records
    assert record.cost == 0.25 and "calls" not in record.llm


@pytest.mark.parametrize("cost", [float("nan"), -1, 1e300, "much", True, {"usd": 1}])
def test_an_invalid_cost_is_unknown(job: Path, cost: Any) -> None:
    add_trial(job, usage={"cost_usd": cost, "n_input_tokens": -5}, trajectory=TRAJECTORY)
    (record,) = imported(job).records
    assert record.cost is None and "tokens" not in record.llm


def test_a_reward_that_differs_from_our_grade_is_reported(
    job: Path, dataset: Dataset, caplog: pytest.LogCaptureFixture
) -> None:
    claimed = {"reward": 1.0, "valid": 1, "gold": 1}
    add_trial(job, submission=dataset.sample_submission, rewards=claimed, report={"score": 1.5})
    (record,) = imported(job).records
    (note,) = [note for note in record.sandbox.notes if "differs" in note]
    assert "gold 1, here 0" in note and "score 1.5, here 72.61873" in note
    assert note in caplog.text


def test_the_logs_of_a_trial_are_limited_in_total(job: Path) -> None:
    trial = add_trial(job)
    for number in range(12):
        with (trial / f"agent/{number:02}.log").open("wb") as file:
            file.truncate(8 << 20)
    group = imported(job)
    (record,) = group.records
    assert (group.folder / record.run_id / RUN_LOG).stat().st_size < 48 << 20
    assert "the log is incomplete: of a trial's logs, 32 MiB are read" in record.sandbox.notes


def test_a_reward_that_matches_our_grade_is_not_mentioned(job: Path, dataset: Dataset) -> None:
    rewards = {"reward": 0.99, "valid": 1, "above_median": 1, "bronze": 1, "silver": 1, "gold": 1}
    add_trial(job, submission=dataset.perfect_submission, rewards=rewards, report={"score": 0.0})
    (record,) = imported(job).records
    assert not [note for note in record.sandbox.notes if "differs" in note]


def test_a_trial_without_a_result_is_skipped(job: Path, dataset: Dataset, capsys: pytest.CaptureFixture[str]) -> None:
    add_trial(job, submission=dataset.perfect_submission)
    unfinished = add_trial(job, "smoke-diabetes__running")
    (unfinished / "result.json").unlink()
    assert len(imported(job).records) == 1
    assert "1 trial without a result left out" in capsys.readouterr().out


def test_links_left_by_an_agent_are_not_followed(job: Path, dataset: Dataset, tmp_path: Path) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_bytes(dataset.perfect_submission.read_bytes())
    trial = add_trial(job, "smoke-diabetes__file")
    (trial / "artifacts/home/submission/submission.csv").symlink_to(secret)
    (trial / "agent/agent.txt").unlink()
    (trial / "agent/agent.txt").symlink_to(secret)
    (trial / "agent/trajectory.json").symlink_to(secret)
    other = add_trial(job, "smoke-diabetes__folder", minute=1)
    (other / "artifacts/home/submission").rmdir()
    (tmp_path / "answers").mkdir()
    secret.rename(tmp_path / "answers/submission.csv")
    (other / "artifacts/home/submission").symlink_to(tmp_path / "answers")
    loop = add_trial(job, "smoke-diabetes__loop", minute=2) / "artifacts/home/submission"
    loop.rmdir()
    loop.symlink_to(loop)
    group = imported(job)
    assert [record.outcome.name for record in group.records] == ["no_submission"] * 3
    left = [path for path in group.folder.rglob("*") if path.is_symlink()]
    assert not left
    assert not any(b"progression" in path.read_bytes() for path in group.folder.rglob(RUN_LOG))


def test_a_pipe_in_place_of_a_submission_does_not_block(job: Path) -> None:
    trial = add_trial(job)
    os.mkfifo(trial / "artifacts/home/submission/submission.csv")
    (record,) = imported(job).records
    assert record.outcome.name == "no_submission"


def test_a_submission_that_is_too_large_is_skipped_and_noted(job: Path) -> None:
    add_trial(job, submission="id,progression\n" + "1,2\n" * 100)
    (record,) = imported(job, "--max-submission-size=100").records
    assert record.outcome.name == "no_submission"
    assert any("at most 100 are read" in note for note in record.sandbox.notes)


def test_secrets_of_this_environment_are_masked(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-a-test-0123456789")
    said = {**TRAJECTORY, "steps": [{**STEPS[0], "message": "key sk-of-a-test-0123456789"}]}
    trial = add_trial(job, exception="NonZeroAgentExitCodeError", trajectory=said)
    result = (trial / "result.json").read_text().replace("it went wrong", "sk-of-a-test-0123456789 is wrong")
    (trial / "result.json").write_text(result)
    (trial / "agent/agent.txt").write_text("OPENAI_API_KEY=sk-of-a-test-0123456789\n")
    group = imported(job)
    assert not any(b"sk-of-a-test" in path.read_bytes() for path in group.folder.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{", '{"task_name": 5}', '{"task_name": "mlebench/smoke-diabetes", "started_at": 5}', "[" * 9999],
)
def test_a_broken_result_gives_a_warning_without_a_traceback(
    job: Path, dataset: Dataset, caplog: pytest.LogCaptureFixture, content: str
) -> None:
    add_trial(job, submission=dataset.perfect_submission)
    (add_trial(job, "smoke-diabetes__broken") / "result.json").write_text(content)
    assert len(imported(job).records) == 1
    assert "smoke-diabetes__broken" in caplog.text


@pytest.mark.parametrize("start", ["0001-01-01", "9999-12-31", "1970-01-01"])
def test_a_trial_with_times_that_no_record_has_is_skipped(
    job: Path, dataset: Dataset, caplog: pytest.LogCaptureFixture, start: str
) -> None:
    add_trial(job, submission=dataset.perfect_submission)
    times: Any = {"started_at": start, "finished_at": "2100-01-01"}
    add_trial(job, "smoke-diabetes__times", agent_execution=times, **times)
    group = imported(job)
    assert len(group.records) == 1 and not group.broken and "smoke-diabetes__times: its" in caplog.text


def test_an_invalid_job_is_rejected_in_one_line(job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "is not a job of Harbor" in refused(job, capsys)
    assert "cannot be read" in refused(tmp_path / "jobs/nowhere", capsys)
    add_trial(job, "other__1", task_name="terminal-bench/other")
    assert "has no finished trial of an exported competition" in refused(job, capsys)


def test_trials_of_several_versions_are_rejected(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    add_trial(job)
    add_trial(job, "smoke-diabetes__v2", task={**TASK, "bench_version": "v2"})
    assert "differ in version, data or description (real, v1, v2): a group has one of each" in refused(job, capsys)


def test_an_unknown_version_or_data_is_rejected(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trial = add_trial(job, task={**TASK, "bench_version": "v9"})
    assert "version 'v9'" in refused(job, capsys)
    (trial / "verifier/report.json").write_text(json.dumps({"task": {**TASK, "data": "twin:../../x"}}))
    assert "data that is not supported" in refused(job, capsys)


def test_a_twin_without_a_local_seed_is_rejected(job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task = {**TASK, "data": "twin:k0123456789abcdef:micro"}
    add_trial(job, task_name="mlebench/spaceship-titanic", task=task)
    said = refused(job, capsys, f"--data-dir={tmp_path / 'data'}")
    assert "made with another data folder" in said


def test_third_party_tasks_are_reported_and_skipped(
    job: Path, dataset: Dataset, caplog: pytest.LogCaptureFixture
) -> None:
    add_trial(job, submission=dataset.perfect_submission)
    add_trial(job, "strange__1", task_name="mlebench/../../strange")
    add_trial(job, "unknown__1", task_name="mlebench/no-such-competition")
    assert len(imported(job).records) == 1
    assert "'mlebench/../../strange' is not one that" in caplog.text
    assert "there is no competition no-such-competition here" in caplog.text


ESCAPES = "\x1b]0;owned\x07\ud800\u202e"


def test_texts_of_a_job_contain_no_control_characters(job: Path, caplog: pytest.LogCaptureFixture) -> None:
    info = {"name": f"a{ESCAPES}", "model_info": {"name": f"m{ESCAPES}"}}
    add_trial(job, agent_info=info, trajectory=TRAJECTORY, exception=f"Error{ESCAPES}")
    add_trial(job, "unknown__1", task_name=f"mlebench/{ESCAPES}x")
    (job / "lock.json").write_text(json.dumps({"harbor": {"version": f"1{ESCAPES}"}}))
    group = imported(job)
    (record,) = group.records
    assert group.manifest.run_by == "harbor 1\ufffd\ufffd" and record.models_called == {"m\ufffd\ufffd": 1}
    assert record.detail == "Error\ufffd\ufffd: it went wrong"
    assert "there is no competition \ufffd\ufffdx here" in caplog.text and "\x1b" not in caplog.text


def test_the_version_and_data_of_a_job_are_named_without_control_characters(
    job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add_trial(job, task={**TASK, "bench_version": f"v2{ESCAPES}"})
    add_trial(job, "smoke-diabetes__other", task={**TASK, "data": [ESCAPES]})
    assert "\x1b" not in refused(job, capsys)


def test_a_reward_of_another_type_is_ignored(job: Path) -> None:
    add_trial(job, rewards={"reward": 1.0}, task={**TASK, "reward": ["percentile"]})
    (record,) = imported(job).records
    assert not [note for note in record.sandbox.notes if "differs" in note]


def test_an_existing_group_is_not_overwritten(job: Path, dataset: Dataset, capsys: pytest.CaptureFixture[str]) -> None:
    add_trial(job, submission=dataset.perfect_submission)
    group = imported(job)
    assert main(["import", str(job), "-o", str(group.folder)]) == 2
    assert "exists already" in capsys.readouterr().err


@pytest.mark.full
def test_an_imported_group_is_audited_and_bundled_but_not_ranked(
    job: Path, dataset: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    usage = {"n_input_tokens": 100, "n_output_tokens": 7, "cost_usd": 0.25}
    add_trial(job, submission=dataset.sample_submission, usage=usage, trajectory=TRAJECTORY)
    add_trial(job, "smoke-diabetes__lost", minute=1, exception="SandboxBuildFailedError", began=False)
    group = imported(job)
    assert main(["audit", str(group.folder)]) in (0, 1)
    bundle = tmp_path / "bundles/mine.tar.zst"
    bundle.parent.mkdir()
    assert main(["bundle", str(group.folder), "-o", str(bundle)]) == 0
    capsys.readouterr()
    assert main(["verify", "--json", str(bundle)]) == 1, "its settings cannot be checked"
    card = json.loads(capsys.readouterr().out)
    assert card["result"] == "cannot be checked"
    assert {own["name"] for own in card["checks"] if own["result"] != "agrees"} == {"settings"}
    assert main(["board", str(tmp_path / "bundles"), f"--out={tmp_path / 'site'}"]) == 0
    assert "0 ranked rows, 1 not comparable" in capsys.readouterr().out


@pytest.mark.full
def test_the_viewer_shows_an_imported_group(job: Path, dataset: Dataset) -> None:
    usage = {"n_input_tokens": 100, "n_output_tokens": 7, "cost_usd": 0.25}
    add_trial(job, submission=dataset.sample_submission, usage=usage, trajectory=TRAJECTORY)
    group = imported(job)
    index = RunIndex(group.folder.parent)
    index.refresh(thorough=True)
    ask, run = asker(application(index, address="127.0.0.1")), f"/run/mine/{group.records[0].run_id}"
    pages = {path: ask(path) for path in ("/", "/group/mine", run, f"{run}/trajectory", f"{run}/log", f"{run}/record")}
    index.close()
    assert {answer.status for answer in pages.values()} == {200}
    assert "these runs were executed by harbor 0.25.0" in pages["/group/mine"].text
    assert "run by Harbor 0.25.0 (docker)" in pages[run].text
    assert "solve it" in pages[f"{run}/trajectory"].text


def test_an_imported_group_that_claims_a_sandbox_is_rejected(
    job: Path, dataset: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add_trial(job, submission=dataset.sample_submission)
    group = imported(job)
    record = group.folder / group.records[0].run_id / "run.json"
    values = json.loads(record.read_text())
    values["sandbox"] = {"name": "docker", "network": "none"}
    record.write_text(json.dumps(values))
    capsys.readouterr()
    assert main(["bundle", str(group.folder), "-o", str(tmp_path / "mine.tar.zst")]) == 2
    assert "its record has a sandbox" in capsys.readouterr().err


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.datetimes().map(str),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
KEYS = ("task_name", "agent_info", "agent_result", "verifier_result", "exception_info", "started_at", "finished_at",
    "agent_execution", "config")  # fmt: skip


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changed=st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=4), agent=VALUES, task=VALUES)
def test_any_result_is_read_or_rejected(tmp_path: Path, changed: dict[str, Any], agent: Any, task: Any) -> None:
    with tempfile.TemporaryDirectory(dir=tmp_path) as folder:
        own = {"agent_info": {"name": agent, "model_info": {"name": agent}}, **changed}
        trial_folder = add_trial(make_job(Path(folder, "job")), **own)
        (trial_folder / "verifier/report.json").write_text(json.dumps({"task": task, "report": {"score": task}}))
        with suppress(JobError):
            trial = read_trial(trial_folder)
            assert trial is not None and len(trial.agent) < 150 and trial.seconds >= 0


def test_folders_with_strange_names_are_not_trials(job: Path, dataset: Dataset) -> None:
    add_trial(job, submission=dataset.perfect_submission)
    add_trial(job, "smoke-diabetes__\x1b[31m")
    add_trial(job, ".hidden__1")
    assert len(imported(job).records) == 1


HIDDEN_TASK = {**TASK, "description": "obfuscated"}


def test_an_obfuscated_task_is_identified_by_its_verifiers_report(job: Path, dataset: Dataset) -> None:
    add_trial(job, "competition-0123abcd__abc1234", task_name="mlebench/competition-0123abcd", task=HIDDEN_TASK,
        submission=dataset.perfect_submission)  # fmt: skip
    group = imported(job)
    (record,) = group.records
    assert (record.competition_id, record.outcome.name, record.description) == ("smoke-diabetes", "gold", "obfuscated")
    assert group.manifest is not None and group.manifest.settings["description"] == "obfuscated"


def test_a_trial_without_a_report_is_identified_by_its_task_folder(job: Path) -> None:
    folder = add_trial(job, "competition-0123abcd__abc1234", task_name="mlebench/competition-0123abcd", began=False,
        exception="EnvironmentStartTimeoutError", config={"task": {"path": "tasks/competition-0123abcd"}})  # fmt: skip
    (folder / "verifier/report.json").unlink()
    assert "hides its competition" in "".join(_warnings(job))
    about = job.parents[1] / "tasks/competition-0123abcd/tests/task.json"
    about.parent.mkdir(parents=True)
    about.write_text(json.dumps(HIDDEN_TASK))
    (record,) = imported(job).records
    assert (record.competition_id, record.outcome.name) == ("smoke-diabetes", "error")


@pytest.mark.parametrize("path", ["tasks/x", "\ud800", "\0", "x" * 5000, ["x"], ""])
def test_a_task_folder_that_cannot_be_read_is_ignored(path: Any) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as name:  # a job in a folder directly below the root
        folder = add_trial(Path("/tmp"), Path(name).name, task_name="mlebench/competition-0123abcd",
            config={"task": {"path": path}})  # fmt: skip
        (folder / "verifier/report.json").unlink()
        with pytest.raises(JobError, match="hides its competition"):
            read_trial(folder)


def _warnings(job: Path) -> list[str]:
    """The errors of a job's trials that cannot be read."""
    found = []
    for folder in job.iterdir():
        if folder.is_dir():
            try:
                read_trial(folder)
            except JobError as error:
                found.append(str(error))
    return found


def test_hidden_and_named_competitions_are_not_mixed(
    job: Path, dataset: Dataset, capsys: pytest.CaptureFixture[str]
) -> None:
    add_trial(job, "smoke-diabetes__abc1234", submission=dataset.perfect_submission)
    add_trial(job, "competition-0123abcd__abc1234", task_name="mlebench/competition-0123abcd", task=HIDDEN_TASK)
    assert "the trials differ in version, data or description" in refused(job, capsys)
