"""Attacks that try to exceed the time limit or outlive the run. Each test fails if the attack succeeds."""

from __future__ import annotations

import os
import threading
import time
import uuid
from pathlib import Path

import docker
import psutil
import pytest

from pytest_mlebench.sandbox import Ending
from tests.sandbox.scripted import SAMPLE, SUBMIT, Runner

pytestmark = [pytest.mark.docker, pytest.mark.serial]


def test_a_daemon_does_not_outlive_the_time_limit(attack: Runner) -> None:
    name = f"daemon-{uuid.uuid4().hex}"
    result = attack(
        f"{SUBMIT}; (setsid nohup bash -c \"trap '' TERM HUP INT; while true; do exec -a {name} sleep 600; done\" "
        "> /dev/null 2>&1 &); trap '' TERM; while true; do sleep 1; done",
        time_limit=2,
    )
    assert result.execution.ending == Ending.TIMED_OUT
    assert result.submission == SAMPLE
    assert not _runs_on_host(name)
    assert not docker.from_env().containers.list(all=True, filters={"name": result.execution.sandbox.container})


def _runs_on_host(name: str) -> bool:
    return any(name in " ".join(process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"]))


def test_an_agent_that_stops_all_its_processes_is_still_ended_on_time(attack: Runner) -> None:
    started = time.monotonic()
    result = attack(f"{SUBMIT}; sleep 600 & kill -STOP -1; kill -STOP $$", time_limit=2)
    assert result.execution.ending == Ending.TIMED_OUT
    assert time.monotonic() - started < 30


def test_secrets_of_other_agents_cannot_be_found(attack: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    secret, own = f"sk-other-{uuid.uuid4().hex}", f"sk-own-{uuid.uuid4().hex}"
    monkeypatch.setenv("OTHER_API_KEY", secret)
    victim = attack.task("sleep 5", environment={"KEY": secret}, secrets=frozenset([secret]))
    thread = threading.Thread(target=attack.sandbox.run, args=(victim,))
    thread.start()
    try:
        time.sleep(1.5)
        containers = docker.from_env().containers.list(all=True, ignore_removed=True)
        settings = [str(container.attrs) for container in containers]
        result = attack(
            "env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n'; "
            "grep -raIhE 'sk-other-[0-9a-f]+' /home /tmp /run /opt /var /etc 2>/dev/null",
            environment={"KEY": own},
        )
    finally:
        thread.join()
    assert own in result.log
    assert secret not in result.log
    assert not any(secret in text for text in settings)  # the engine does not store it either


def test_an_ending_cannot_be_faked(attack: Runner) -> None:
    result = attack('echo \'{"exit_code": 0, "oom_kills": 0}\'; echo \'{"exit_code": 0}\' > /proc/1/fd/3; exit 137')
    assert (result.execution.ending, result.execution.exit_code) == (Ending.CRASHED, 137)


def test_no_process_of_a_run_continues_after_it_returns(attack: Runner) -> None:
    begun: list[Path] = []
    done: list[Path] = []

    def validate(path: Path) -> str:
        begun.append(path)
        time.sleep(2)
        done.append(path)
        return "valid"

    attack("true")  # starts shared processes, which stay
    threads, processes = set(threading.enumerate()), set(psutil.Process().children(recursive=True))
    result = attack(
        f"{SUBMIT}; (setsid curl -s -F file=@$SUBMISSION_DIR/submission.csv $VALIDATION_URL/validate > /tmp/x &); "
        "exec 3<>/dev/tcp/127.0.0.1/3128; printf 'CONNECT a' >&3; exec 4<>/dev/tcp/127.0.0.1/5000; sleep 1",
        validate=validate,
    )
    assert result.execution.ending == Ending.FINISHED and begun == done != []
    assert set(threading.enumerate()) <= threads
    assert set(psutil.Process().children(recursive=True)) <= processes
    for folder in ("/tmp", "/var/tmp"):
        assert not [
            path
            for path in Path(folder).glob(f"mlebench-*-{os.getpid()}-*")
            if path.is_dir() and "podman" not in path.name
        ]
    assert not docker.from_env().containers.list(all=True, filters={"label": f"mlebench.pid={os.getpid()}"})
