"""Guarantees of every sandbox. ``sandbox/contract.py`` lists the differences."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
import uuid
from functools import partial
from pathlib import Path

import psutil
import pytest

from pytest_mlebench.errors import SandboxError
from pytest_mlebench.io.files import bundled
from pytest_mlebench.sandbox import Ending, Sandbox
from pytest_mlebench.sandbox.local.sandbox import LocalSandbox
from tests.left import left
from tests.sandbox.scripted import MB, SAMPLE, SUBMIT, VALID, Runner, make_runner

pytestmark = pytest.mark.serial

EAT_MEMORY = "python3 -c 'x = []\nwhile True: x.append(bytearray(1 << 24))'"


def test_an_agent_finds_its_paths_in_its_variables(run: Runner) -> None:
    result = run(
        'for name in SUBMISSION_DIR LOGS_DIR CODE_DIR AGENT_DIR; do test -w "${!name}" && echo "$name"; done; '
        'test -r "$DATA_DIR/description.md" && echo DATA_DIR; '
        'echo "$COMPETITION_ID"; test -f "$AGENT_DIR/start.sh" && echo start; test -w "$HOME" && echo home',
        time_limit=77,
    )
    assert result.log.split() == [
        *("SUBMISSION_DIR", "LOGS_DIR", "CODE_DIR", "AGENT_DIR", "DATA_DIR", "toy-competition", "start", "home")
    ]


def test_an_agent_gets_its_time_limit_as_a_number_and_in_its_instructions(run: Runner) -> None:
    result = run('echo "$TIME_LIMIT_SECS"; cat "$INSTRUCTIONS"', time_limit=90)
    assert result.log.startswith("90\n")
    assert "1 minute 30 seconds" in result.log


def test_instructions_name_the_agents_paths(run: Runner) -> None:
    result = run(
        'for place in "$DATA_DIR" "$SUBMISSION_DIR" "$LOGS_DIR" "$CODE_DIR"; do '
        'grep -q "$place" "$INSTRUCTIONS" && echo named; done'
    )
    assert result.log.split() == ["named"] * 4


def test_the_layout_of_paths_is_the_same_in_every_sandbox(run: Runner) -> None:
    result = run(
        'cd "$HOME/.."; ls -d agent code data instructions.txt logs nonroot submission validate_submission.sh; '
        'ls -A "$HOME" | grep -v "^\\.bash\\|^\\.profile"; basename "$HOME"; '
        'test . -ef "$(dirname "$INSTRUCTIONS")" && echo here'
    )
    own = ["agent", "code", "data", "instructions.txt", "logs", "nonroot", "submission", "validate_submission.sh"]
    assert result.log.split() == [*own, "nonroot", "here"]


def test_arguments_and_variables_of_the_definition_reach_the_agent_unchanged(run: Runner) -> None:
    result = run(
        'printf "<%s>" "$@" "$GREETING"', "a b", "$HOME", "", "'\"", environment={"GREETING": "guten Tag; $HOME ü"}
    )
    assert result.log == "<a b><$HOME><><'\"><guten Tag; $HOME ü>"


def test_the_log_has_the_output_in_order(run: Runner) -> None:
    """Docker has one pipe for each stream and reads them in any order; here, one pipe carries both."""
    result = run("for i in {1..500}; do echo out $i; echo error $i >&2; done")
    assert result.log.split() == [word for i in range(1, 501) for word in ("out", str(i), "error", str(i))]


def test_the_streams_can_be_opened_by_name(run: Runner) -> None:
    assert run("echo one | tee /dev/stderr; echo two > /dev/stdout").log.split() == ["one", "one", "two"]


def test_standard_input_is_empty(run: Runner) -> None:
    assert run("cat; echo end").log == "end\n"


def test_files_left_by_the_agent_are_in_the_run_directory(run: Runner) -> None:
    result = run(
        f"{SUBMIT}; echo note > $LOGS_DIR/note.txt; mkdir -p $CODE_DIR/a/b; echo code > $CODE_DIR/a/b/main.py; "
        "echo lost > $HOME/elsewhere"
    )
    assert result.submission == SAMPLE
    assert left(result.run_dir) == {"logs/note.txt": b"note\n", "code/a/b/main.py": b"code\n"}
    assert sorted(path.name for path in result.run_dir.iterdir()) == ["files.zip", "run.log", "submission"]


def test_odd_names_are_kept_as_plain_text(run: Runner) -> None:
    result = run("cd $LOGS_DIR; touch -- $'-rf' $'a\\nb' 'ü' 'c d' $'\\xff' 'e\\f' $(printf 'x%.0s' {1..255})")
    names = {"-rf", "a%0Ab", "ü", "c d", "%FF", "e%5Cf", "x" * 255}
    assert left(result.run_dir).keys() == {f"logs/{name}" for name in names}


def test_an_agent_that_leaves_nothing_has_only_a_log(run: Runner) -> None:
    result = run("true")
    assert result.submission is None
    assert [path.name for path in result.run_dir.iterdir()] == ["run.log"] and left(result.run_dir) == {}


def test_public_data_can_be_read_and_not_changed(run: Runner) -> None:
    before = _contents(run.public)
    result = run(
        "cat $DATA_DIR/images/1.txt; cd $DATA_DIR; echo x > description.md; echo x >> images/1.txt; touch new; "
        "rm -rf images; mv description.md gone; touch images/new; ls | wc -l"
    )
    assert result.log.startswith("an image")
    assert result.log.rstrip().endswith("3")
    assert _contents(run.public) == before


def _contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_submission_checker_answers_the_agent(run: Runner) -> None:
    result = run(
        f'{SUBMIT}; script="$(dirname "$SUBMISSION_DIR")/validate_submission.sh"; '
        'curl -s "$VALIDATION_URL/health"; bash "$script" "$SUBMISSION_DIR/submission.csv"; '
        'echo nonsense > bad.csv; bash "$script" bad.csv'.replace("bad.csv", "$LOGS_DIR/bad.csv")
    )
    assert '{"status": "running"}' in result.log
    assert result.log.index(VALID) < result.log.index("wrong columns")
    assert [made.verdict for made in result.execution.sandbox.validations] == result.verdicts != []


def test_a_submission_of_any_name_is_checked(run: Runner) -> None:
    name = r"""$LOGS_DIR/a,b;1 'x'\"y\"\\z=@.csv"""
    result = run(f'cp "$DATA_DIR/sample_submission.csv" "{name}"; bash "$HOME/../validate_submission.sh" "{name}"')
    assert VALID in result.log, result.log


def test_a_local_agent_with_too_long_an_argument_is_an_error_without_a_traceback(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SandboxError, match="start script could not be started: Argument list too long"):
        make_runner(LocalSandbox(), tmp_path)("true", "x" * 200_000)
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize("command", ["create -n x -c", "install numpy --channel", "create -n", "run --cwd", "run -n"])
def test_an_option_of_conda_without_its_value_is_an_error(command: str) -> None:
    conda = ["bash", str(bundled("environment") / "conda"), *command.split()]
    ended = subprocess.run(conda, capture_output=True, text=True, timeout=20, check=False)
    assert (ended.returncode, ended.stderr) == (1, f"conda: {conda[-1]} needs a value\n")


def test_an_exit_with_zero_is_finished(run: Runner) -> None:
    execution = run("exit 0").execution
    assert (execution.ending, execution.exit_code, execution.signal) == (Ending.FINISHED, 0, None)


def test_an_exit_code_is_reported(run: Runner) -> None:
    execution = run(f"{SUBMIT}; exit 7").execution
    assert (execution.ending, execution.exit_code) == (Ending.CRASHED, 7)
    assert "7" in execution.detail


@pytest.mark.parametrize(("number", "name"), [(11, "SIGSEGV"), (40, "signal 40")], ids=["usual", "real-time"])
def test_a_signal_is_reported(run: Runner, number: int, name: str) -> None:
    execution = run(f"{SUBMIT}; kill -{number} $$").execution
    assert (execution.ending, execution.signal) == (Ending.CRASHED, name)
    assert name in execution.detail


def test_a_start_script_that_cannot_start_its_program_is_a_crash(run: Runner) -> None:
    execution = run("exec /no/such/program").execution
    assert (execution.ending, execution.exit_code) == (Ending.CRASHED, 127)


def test_the_harness_enforces_the_time_limit_and_keeps_existing_files(run: Runner) -> None:
    started = time.monotonic()
    result = run(f"{SUBMIT}; sleep 600", time_limit=4)
    assert result.execution.ending == Ending.TIMED_OUT
    assert result.submission == SAMPLE
    assert 4 <= result.execution.seconds < 10
    assert time.monotonic() - started < 30


def test_an_agent_is_asked_to_terminate_before_it_is_killed(run: Runner) -> None:
    script = f"trap '{SUBMIT}; echo goodbye; exit 0' TERM; sleep 600 & wait"
    result = run(script, time_limit=4, grace_seconds=5.0)  # long enough for a busy machine
    assert result.execution.ending == Ending.TIMED_OUT
    assert "goodbye" in result.log
    assert result.submission == SAMPLE


@pytest.mark.full
def test_an_agent_that_ignores_termination_is_killed(run: Runner) -> None:
    started = time.monotonic()
    result = run("trap '' TERM; while true; do sleep 0.1; done", time_limit=1)
    assert result.execution.ending == Ending.TIMED_OUT
    assert time.monotonic() - started < 20


def test_excessive_memory_is_reported_and_existing_files_are_kept(run: Runner) -> None:
    result = run(f"{SUBMIT}; {EAT_MEMORY}", memory=200 * MB)
    assert result.execution.ending == Ending.OUT_OF_MEMORY
    assert result.submission == SAMPLE


def test_a_full_disk_is_reported(run: Runner) -> None:
    result = run(f"{SUBMIT}; exec head -c 64M /dev/zero > $LOGS_DIR/big", disk=8 * MB)
    assert result.execution.ending == Ending.CRASHED
    assert "limit" in result.execution.detail
    assert result.submission == SAMPLE


def test_no_process_of_an_agent_continues(run: Runner) -> None:
    name = f"survivor-{uuid.uuid4().hex}"
    run(f"(setsid nohup bash -c 'exec -a {name} sleep 600' > /dev/null 2>&1 &) ; sleep 0.3; {SUBMIT}")
    assert not _running(name)


def _running(name: str) -> bool:
    return any(name in " ".join(process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"]))


@pytest.mark.full
def test_output_can_be_watched_while_the_agent_runs(run: Runner) -> None:
    task = run.task("echo early; sleep 4; echo late")
    seen: list[str] = []

    def watch() -> None:
        log = task.run_dir / "run.log"
        for _ in range(200):
            if log.exists() and (text := log.read_text()):
                seen.append(text)
                return
            time.sleep(0.02)

    watcher = threading.Thread(target=watch)
    watcher.start()
    run.sandbox.run(task)
    watcher.join()
    assert seen == ["early\n"]
    assert (task.run_dir / "run.log").read_text() == "early\nlate\n"


def test_standard_error_is_also_in_the_log(run: Runner) -> None:
    assert sorted(run("echo out; echo err >&2").log.split()) == ["err", "out"]


def test_a_long_log_keeps_its_head_and_tail(run: Runner) -> None:
    result = run("echo first; head -c 20M /dev/zero | tr '\\0' x; echo; echo last", log_bytes=MB)
    assert result.log.startswith("first\n")
    assert result.log.endswith("last\n")
    assert len(result.log) < 1.1 * MB
    assert "bytes left out" in result.log


def test_secrets_appear_in_no_file(run: Runner) -> None:
    secret = f"sk-{uuid.uuid4().hex}"
    result = run(
        'echo "key: $KEY"; echo "$KEY" > $LOGS_DIR/key; echo "k=$KEY" > $CODE_DIR/main.py; echo BZhj > $LOGS_DIR/a.bz2',
        environment={"KEY": secret},
        secrets=frozenset([secret]),
    )
    assert "key: ***" in result.log
    assert secret not in result.log and left(result.run_dir).keys() == {"logs/key", "logs/a.bz2", "code/main.py"}
    assert not [path for path, content in left(result.run_dir).items() if secret.encode() in content]
    assert secret not in repr(result.execution)
    assert [note for note in result.execution.sandbox.notes if "1 archive not searched" in note]


def test_links_pipes_and_their_targets_are_not_collected(run: Runner, tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("outside")
    result = run(
        f"ln -s /etc/passwd $SUBMISSION_DIR/submission.csv; ln -s {outside} $LOGS_DIR/link; ln -s / $CODE_DIR/root; "
        "mkfifo $LOGS_DIR/pipe; echo kept > $LOGS_DIR/file"
    )
    kept = {str(path.relative_to(result.run_dir)) for path in result.run_dir.rglob("*") if not path.is_dir()}
    assert kept == {"files.zip", "run.log"} and left(result.run_dir) == {"logs/file": b"kept\n"}
    assert not any(path.is_symlink() for path in result.run_dir.rglob("*"))
    left_out = " ".join(result.execution.sandbox.left_out)
    assert all(name in left_out for name in ("submission.csv", "logs/link", "code/root", "logs/pipe"))


def test_files_that_are_too_large_or_too_many_are_left_out_and_reported(run: Runner) -> None:
    result = run(
        f"{SUBMIT}; head -c 3M /dev/zero > $LOGS_DIR/big; echo small > $LOGS_DIR/small; "
        "for i in $(seq 100); do echo $i > $CODE_DIR/$i; done",
        collect_bytes=2 * MB,
        collect_files=20,
    )
    assert result.submission == SAMPLE
    names = list(left(result.run_dir))
    assert [name for name in names if name.startswith("logs/")] == ["logs/small"] and len(names) <= 21
    assert "logs/big" in " ".join(result.execution.sandbox.left_out)


def test_a_folder_replaced_by_a_link_is_not_followed(run: Runner) -> None:
    result = run("rmdir $SUBMISSION_DIR && ln -s $DATA_DIR $SUBMISSION_DIR; rmdir $LOGS_DIR && ln -s /etc $LOGS_DIR")
    assert result.submission is None and left(result.run_dir) == {}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_stops_the_agent_keeps_its_files_and_is_reraised(run: Runner, number: signal.Signals) -> None:
    name = f"interrupted-{uuid.uuid4().hex}"
    task = run.task(f"{SUBMIT}; echo ready; exec -a {name} sleep 600")

    def interrupt() -> None:
        log = task.run_dir / "run.log"
        while not (log.exists() and "ready" in log.read_text()):
            time.sleep(0.05)
        os.kill(os.getpid(), number)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        run.sandbox.run(task)
    assert not _running(name)
    assert (task.run_dir / "submission/submission.csv").read_text() == SAMPLE
    assert (task.run_dir / "run.log").read_text().startswith("ready")
    assert not _leftovers(task.run_dir)


def _leftovers(run_dir: Path) -> set[str]:
    return {path.name for path in run_dir.iterdir()} - {"files.zip", "run.log", "submission"}


def _verdict(n: int, path: Path) -> str:
    return f"verdict {n} on {path.read_text().strip()}"


def test_concurrent_runs_are_isolated(run: Runner) -> None:
    tasks = [
        run.task(
            f"echo {n} > $SUBMISSION_DIR/submission.csv; sleep 1; cat $SUBMISSION_DIR/submission.csv; "
            'curl -s -F "file=@$SUBMISSION_DIR/submission.csv" "$VALIDATION_URL/validate"',
            validate=partial(_verdict, n),
        )
        for n in range(3)
    ]
    threads = [threading.Thread(target=run.sandbox.run, args=(task,)) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for n, task in enumerate(tasks):
        log = (task.run_dir / "run.log").read_text()
        assert re.fullmatch(rf'{n}\n\{{"result": "verdict {n} on {n}"\}}', log)


def test_the_record_names_the_sandbox(run: Runner, sandbox: Sandbox) -> None:
    assert run("true").execution.sandbox.name == sandbox.name
