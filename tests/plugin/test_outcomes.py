"""Every outcome of a run, produced by an agent with that behaviour."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from pytest_mlebench.cli.main import main
from pytest_mlebench.reports.formats import run_rows
from pytest_mlebench.results import read_group
from tests.left import contents
from tests.plugin.workers import in_one_process_and_with_xdist
from tests.processes import commands_of

Run = Callable[..., pytest.RunResult]
SILENT = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
Records = Callable[[], dict[str, dict[str, Any]]]


def left_over_homes(project: pytest.Pytester) -> list[Path]:
    return list(project.path.glob("reports/*/*/.home-*"))


@pytest.mark.full
@in_one_process_and_with_xdist
def test_medals_have_separate_letters_words_and_counts(run_toys: Run, workers: tuple[str, ...]) -> None:
    result = run_toys("gold", "silver", "bronze", "above-median", "no-medal", options=workers)
    assert result.ret == 0
    result.stdout.re_match_lines([r"=+ .*1 gold, .*1 silver.* in .*"])
    last = result.outlines[-1]
    assert all(f"1 {word}" in last for word in ("gold", "silver", "bronze", "above median", "no medal"))
    verbose = run_toys("gold", "silver", options=(*workers, "-v", "--run-group=other"))
    verbose.stdout.fnmatch_lines_random(["*GOLD*", "*SILVER*"])


@pytest.mark.full
@in_one_process_and_with_xdist
def test_failures_show_the_reason_and_the_end_of_the_log(
    run_toys: Run, records: Records, project: pytest.Pytester, workers: tuple[str, ...]
) -> None:
    result = run_toys(
        "nonsense",
        "nothing",
        "sleeps",
        "eats-memory",
        "crashes",
        options=("--time-limit=2s", "--memory=300m", *workers),
    )
    assert result.ret == 1
    last = result.outlines[-1]
    for word in ("invalid submission", "no submission", "timed out", "out of memory", "crashed"):
        assert f"1 {word}" in last
    result.stdout.fnmatch_lines_random(
        [
            "reason: column 'id' is missing; the file has 'this', ' is not'",
            "*nothing to do",
            "*(exit code 3)",
            "*about to crash",
        ]
    )
    found = records()
    assert {name: record["outcome"] for name, record in found.items()} == {
        "nonsense": "invalid_submission",
        "nothing": "no_submission",
        "sleeps": "timed_out",
        "eats-memory": "out_of_memory",
        "crashes": "crashed",
    }
    assert found["crashes"]["exit_code"] == 3
    assert found["sleeps"]["seconds"] < 20
    assert not left_over_homes(project)


@pytest.mark.full
@in_one_process_and_with_xdist
def test_a_grader_that_raises_is_an_error_in_table_page_and_exit_status(
    run_toys: Run, records: Records, project: pytest.Pytester, workers: tuple[str, ...]
) -> None:
    grade = project.path / "competitions/toy-parity/grade.py"
    grade.write_text(grade.read_text() + "\n\nright = grade\n\n\ndef grade(submission, answers):\n")
    with grade.open("a") as file:
        file.write("    if right(submission, answers) == 1:\n        raise KeyError('too good')\n")
        file.write("    return right(submission, answers)\n")
    result = run_toys("gold", "silver", options=workers)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "1 error" in result.outlines[-1] and "1 silver" in result.outlines[-1]
    assert records()["gold"]["outcome"] == "error"
    named = "the grader of toy-parity is defective: 1 run could not be graded (*too good*)"
    result.stdout.fnmatch_lines(["toy-parity * error *", named])
    assert "the grader of toy-parity is defective" in (project.path / "reports/toys/report.html").read_text()
    again = project.runpytest_subprocess("--resume=toys", "--retry-failed=error", "-p", "no:cacheprovider")
    assert "1 error" in again.outlines[-1] and len(list(project.path.glob("reports/toys/*/run.json"))) == 3


@pytest.mark.full
def test_a_submission_written_before_the_end_is_graded(run_toys: Run, records: Records) -> None:
    result = run_toys("sleeps-late", "crashes-late", options=("--time-limit=2s",))
    assert result.ret == 0
    found = records()
    assert (found["sleeps-late"]["outcome"], found["sleeps-late"]["ending"]) == ("gold", "timed out")
    assert (found["crashes-late"]["outcome"], found["crashes-late"]["ending"]) == ("silver", "crashed")


@pytest.mark.full
def test_child_processes_that_an_agent_leaves_are_ended(
    run_toys: Run, records: Records, project: pytest.Pytester
) -> None:
    assert run_toys("leaves-children").ret == 0
    assert not any("98765" in command for command in commands_of(project.path))
    assert records()["leaves-children"]["sandbox"]["left_behind"] == 2
    assert not left_over_homes(project)


@pytest.mark.full
def test_excessive_output_is_truncated_in_the_middle(run_toys: Run, project: pytest.Pytester) -> None:
    assert run_toys("floods").ret == 0
    (log,) = project.path.glob("reports/toys/*/run.log")
    assert log.stat().st_size < 70 << 20
    with log.open("rb") as file:
        assert file.read(21) == b"wrote a submission wi"
        file.seek(-100, os.SEEK_END)
        assert file.read().endswith(b"the last line\n")


@pytest.mark.full
def test_an_agent_cannot_control_the_terminal_or_change_a_report(run_toys: Run, project: pytest.Pytester) -> None:
    start = project.path / "agents/toy/start.sh"
    hostile = r"\033]0;owned\007\033[2J\302\2332J\342\200\256gnp.exe"
    start.write_text(f"printf '{hostile}\\n'; printf '{hostile},b\\n1,2\\n' > $SUBMISSION_DIR/submission.csv\n")
    result = run_toys("gold", options=("--junitxml=junit.xml", "--html=html/report.html", "--self-contained-html"))
    assert "gnp.exe" in result.stdout.str() and "1 invalid submission" in result.outlines[-1]
    shown = result.stdout.str() + "".join(
        (project.path / name).read_text() for name in ("junit.xml", "html/report.html", "reports/toys/report.html")
    )
    assert not re.findall("[\x07\x1b\x80-\x9f\u202e]", shown.replace("\x1b[0m", ""))
    for format in ("table", "md", "csv"):
        command = [sys.executable, "-m", "pytest_mlebench.cli", "report", "reports/toys", f"--format={format}"]
        printed = subprocess.run(command, cwd=project.path, capture_output=True, text=True, check=True).stdout
        assert not re.findall("[\x07\x1b\x80-\x9f\u202e]", printed)


@pytest.mark.full
def test_secrets_are_masked_everywhere(
    run_toys: Run, project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = run_toys("secret")
    assert missing.ret == pytest.ExitCode.USAGE_ERROR
    missing.stderr.fnmatch_lines(["*agent toy/secret needs TOY_TOKEN*"])
    monkeypatch.setenv("TOY_TOKEN", "hunter2-hunter2")
    result = run_toys("secret", options=("-v", "--junitxml=junit.xml"))
    assert result.ret == 0
    written = [*contents(project.path / "reports"), ("junit.xml", (project.path / "junit.xml").read_bytes())]
    assert any(name.endswith("logs/token.txt") for name, _ in written)
    assert [name for name, content in written if b"hunter2" in content] == []
    assert "hunter2" not in result.stdout.str()


@pytest.mark.full
def test_the_reason_of_a_skip_is_masked(
    run_toys: Run, project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOY_TOKEN", "hunter2-hunter2")
    project.makepyfile(
        test_own="""
        import pytest

        @pytest.mark.skip(reason="depends on test_u.py::TestA::test_b and hunter2-hunter2")
        def test_skipped(): pass
    """
    )
    result = run_toys("secret", options=("test_own.py", "-v", "-rs", "--junitxml=junit.xml"))
    assert result.ret == 0 and "1 skipped" in result.outlines[-1]
    result.stdout.fnmatch_lines(["SKIPPED [[]1] test_own.py:3: depends on test_u.py: :TestA::test_b and [*][*][*]"])
    (skipped,) = ElementTree.parse(project.path / "junit.xml").iter("skipped")
    assert "TestA" in skipped.get("message", "") and "hunter2" not in result.stdout.str() + (skipped.text or "")


@pytest.mark.full
def test_min_medal_turns_lower_results_into_failures(run_toys: Run) -> None:
    result = run_toys("gold", "bronze", "above-median", "no-medal", options=("--min-medal=bronze",))
    assert result.ret == 1
    assert "2 failed" in result.outlines[-1] and "1 gold, 1 bronze" in result.outlines[-1]
    result.stdout.fnmatch_lines(["*score 0.65; --min-medal bronze requires 0.7"])
    assert "3 failed" not in run_toys("gold", "bronze", "above-median", options=("--min-medal=median",)).outlines[-1]


@pytest.mark.full
def test_an_untrusted_agent_is_an_error_that_names_both_solutions(
    run_toys: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent/docker.sock")
    result = run_toys("untrusted", "gold", options=("--sandbox=auto",))
    assert result.ret == 1
    assert "1 error" in result.outlines[-1] and "1 gold" in result.outlines[-1]
    result.stdout.fnmatch_lines(
        ["mlebench: warning: the runs of toy/untrusted will end immediately: agent toy/untrusted *"]
    )
    result.stdout.fnmatch_lines(
        ["*toy/untrusted is not trusted*Docker does not answer*: start it *--trust-agent=toy/untrusted*"]
    )


@pytest.mark.full
@pytest.mark.parametrize("workers", [(), ("-n2",)])
def test_a_problem_that_prevents_all_runs_is_reported_once_before_the_first(
    run_toys: Run, project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, workers: tuple[str, ...]
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent/docker.sock")
    result = run_toys("gold", "silver", options=("--sandbox=docker", "--seeds=2", *workers))
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "ERROR at setup" not in result.stdout.str()
    left = [path.name for path in (project.path / "reports").glob("*") if path.is_dir()]
    assert not left, "no unusable group is created"
    lines = [line for line in (*result.outlines, *result.errlines) if "Docker does not answer" in line]
    assert len(lines) == 1 and "(unix:///nonexistent/docker.sock: No such file or directory)" in lines[0]


@pytest.mark.full
def test_a_harness_failure_is_an_error_and_the_other_runs_continue(run_toys: Run, project: pytest.Pytester) -> None:
    (project.path / "competitions/toy-parity/prepare.py").write_text("import nonexistent_package\n")
    result = run_toys("gold")
    assert "1 error" in result.outlines[-1]
    result.stdout.fnmatch_lines(["*toy-parity*prepare.py cannot be imported*nonexistent_package*"])
    assert "Traceback" not in result.stdout.str()


@pytest.mark.full
def test_a_run_whose_directory_cannot_be_created_is_an_error(run_toys: Run, project: pytest.Pytester) -> None:
    project.makeconftest("""
        from pathlib import Path

        def pytest_runtest_setup(item):
            folder = Path("reports/toys")
            if folder.is_dir():
                folder.rename("reports/gone")
                folder.touch()
    """)
    result = run_toys("gold", "silver", options=("-p", "no:html"))
    assert "2 errors" in result.outlines[-1]
    result.stdout.fnmatch_lines(["*cannot be created: Not a directory*"])
    assert "Traceback" not in result.stdout.str()


@pytest.mark.full
def test_properties_are_written_to_junit_xml(run_toys: Run, project: pytest.Pytester) -> None:
    run_toys("silver", "crashes", options=("-n", "1", "--junitxml=junit.xml"))
    tree = ElementTree.parse(project.path / "junit.xml")
    cases = [{node.get("name"): node.get("value") for node in case.iter("property")} for case in tree.iter("testcase")]
    values, crashed = sorted(cases, key=lambda case: case["agent"] != "toy/silver")
    assert "medal" not in crashed and crashed["outcome"] == "crashed" and "None" not in crashed.values()
    expected = {"score": "0.85", "medal": "silver", "gold_threshold": "0.9", "ending": "finished", "outcome": "silver"}
    assert values | expected == values
    assert float(values["seconds"] or "nan") < 60


@pytest.mark.full
def test_the_reason_of_a_failure_is_the_same_everywhere_and_names_no_folder(
    run_toys: Run, project: pytest.Pytester
) -> None:
    result = run_toys("nothing", options=("--junitxml=junit.xml",))
    result.stdout.fnmatch_lines(["reason: the agent left no submission.csv"])
    (run_json,) = project.path.glob("reports/toys/*/run.json")
    report = json.loads((project.path / "reports/toys/grading_report.json").read_text())["competition_reports"][0]
    assert json.loads(run_json.read_text())["report"]["error"] == report["error"] == "the agent left no submission.csv"
    assert "the agent left no submission.csv" in (project.path / "reports/toys/report.html").read_text()
    group = read_group(project.path / "reports/toys")
    assert next(iter(run_rows([group])))["error"] == "the agent left no submission.csv"


@pytest.mark.full
def test_scores_on_synthetic_data_are_always_labelled(
    run_toys: Run,
    project: pytest.Pytester,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    says, folders = (
        "scores say nothing about the real competition",
        ["--competitions-dir=competitions", "--data-dir=data"],
    )
    assert main(["prepare", "-c", "toy-parity", "--synthetic", *folders]) == 0
    result = run_toys("gold")
    result.stdout.fnmatch_lines([f"Synthetic data: {says}."])
    capsys.readouterr()
    assert main(["report", "reports/toys"]) == 0
    assert f"Synthetic data: {says}." in capsys.readouterr().out
    (submission,) = project.path.glob("reports/toys/*/submission/submission.csv")
    assert main(["grade-sample", str(submission), "toy-parity", *folders]) == 0
    assert f"Synthetic data (toy-parity): {says}\n" in caplog.text
    caplog.clear()
    lines = project.path / "subs.jsonl"
    lines.write_text(json.dumps({"competition_id": "toy-parity", "submission_path": str(submission)}))
    assert main(["grade", f"--submission={lines}", "--output-dir=out", *folders]) == 0
    assert f"Synthetic data (toy-parity): {says}\n" in caplog.text


@pytest.mark.full
@in_one_process_and_with_xdist
def test_ctrl_c_ends_all_processes_and_keeps_finished_runs(project: pytest.Pytester, workers: tuple[str, ...]) -> None:
    command = ["--agent=toy/gold", "--agent=toy/sleeps", "--run-group=toys", "competitions/toy-parity", *workers]
    out = (project.path / "out.txt").open("w")
    process = project.popen(
        [sys.executable, "-m", "pytest", *command, "--heartbeat=1s"], process_group=0, **SILENT | {"stdout": out}
    )
    out.close()
    group = project.path / "reports/toys"
    deadline = time.monotonic() + 60
    while not (any(group.glob("*gold*/run.json")) and any(group.glob("*sleeps*/run.log"))):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.1)
    while "1 of 2 runs finished, 1 running; 1 gold" not in (project.path / "out.txt").read_text():
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.1)
    os.killpg(process.pid, 2)
    assert process.wait(30) == pytest.ExitCode.INTERRUPTED
    deadline = time.monotonic() + 10
    while "sleep 1000" in commands_of(project.path) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert "sleep 1000" not in commands_of(project.path)
    assert not left_over_homes(project)
    assert len(list(group.glob("*/run.json"))) == 1
    assert "toy/gold" in (group / "report.html").read_text()
    text = (project.path / "out.txt").read_text()
    assert "; mlebench watch reports/toys" in text
    resume = "pytest --resume=reports/toys" + (" -n 2" if workers else "")
    assert f"not finished: 1 of 2 runs; resume: {resume}\n" in text and f"run group: {group}" in text
    assert bool(workers) == ("mlebench: stopping: ending agents" in text)
    assert '"total_gold_medals": 1' in (group / "grading_report.json").read_text()
    assert re.search("^!+ interrupted !+$", text, re.MULTILINE) and "KeyboardInterrupt" not in text
    assert not re.search(r"\.py:\d+", text), "no line of code is shown as the cause"
    assert "toy/sleeps on smoke: no complete seed of 1 competition yet (no run)\n" in text and "× 0" not in text


@pytest.mark.full
def test_a_killed_session_leaves_no_agent_running(project: pytest.Pytester) -> None:
    process = project.popen(
        [sys.executable, "-m", "pytest", "--agent=toy/sleeps", "--run-group=toys", "competitions/toy-parity"], **SILENT
    )
    deadline = time.monotonic() + 60
    while "sleep 1000" not in commands_of(project.path):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.1)
    process.kill()
    process.wait()
    deadline = time.monotonic() + 10
    while ("sleep 1000" in commands_of(project.path) or left_over_homes(project)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert "sleep 1000" not in commands_of(project.path)
    assert not left_over_homes(project)


@pytest.mark.full
def test_pytest_timeout_kills_no_agent_and_a_github_step_gets_a_summary(
    project: pytest.Pytester, run_toys: Callable[..., pytest.RunResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTEST_ADDOPTS")  # which disables the plugin
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(project.path / "summary.md"))
    result = run_toys("gold", "sleeps", options=("--timeout=1", "--time-limit=4s"))
    assert "1 gold" in result.outlines[-1] and "1 timed out" in result.outlines[-1]
    summary = (project.path / "summary.md").read_text()
    assert summary.startswith("# toys\n\n| competition | agent |") and "| toy-parity | toy/gold | 0 | gold |" in summary


@pytest.mark.full
def test_a_failure_with_showlocals_shows_no_secret(
    project: pytest.Pytester, run_toys: Callable[..., pytest.RunResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOY_TOKEN", "s3cr3t-t0k3n")
    project.makeconftest("""
        from pytest_mlebench.sandbox.local import sandbox
        def fail(home, task, environment, redactor):
            print("it is", environment["TOKEN"])
            raise ZeroDivisionError
        sandbox._supervise = fail
    """)
    result = run_toys("secret", options=("-l", "--full-trace"))
    assert "ZeroDivisionError" in result.stdout.str()
    assert "***" in result.stdout.str() and "s3cr3t-t0k3n" not in result.stdout.str() + result.stderr.str()
