"""Attacks on the submission checker. Each test fails if the attack succeeds."""

from __future__ import annotations

import threading

import pytest

from pytest_mlebench.sandbox import Ending
from tests.sandbox.scripted import SUBMIT, Runner

pytestmark = pytest.mark.docker


def test_the_checker_outlives_every_signal(attack: Runner) -> None:
    result = attack(
        "for signal in TERM KILL STOP INT HUP; do kill -$signal 1; done 2>/dev/null; "
        "(setsid bash -c 'kill -KILL -1') ; sleep 0.5; echo unreachable"
    )
    assert "unreachable" not in result.log  # it exited by itself
    again = attack(
        "for pid in /proc/[0-9]*; do [ $pid = /proc/$$ ] || kill -9 ${pid#/proc/}; done 2>/dev/null; "
        "curl -s $VALIDATION_URL/health"
    )
    assert '"running"' in again.log


def test_no_other_process_can_pose_as_the_checker(attack: Runner) -> None:
    fake = (
        "import socket\nfor host in ('127.0.0.1', '0.0.0.0', '::', '::1'):\n"
        "    for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):\n"
        "        s = socket.socket(socket.AF_INET6 if ':' in host else socket.AF_INET)\n"
        "        s.setsockopt(socket.SOL_SOCKET, option, 1)\n"
        "        try:\n            s.bind((host, 5000)); s.listen(); print('faked', host)\n"
        "        except OSError: pass\n"
    )
    result = attack(f'python3 -c "{fake}"; echo nonsense > x.csv; /home/validate_submission.sh x.csv')
    assert "wrong columns" in result.log
    assert "faked 127.0.0.1" not in result.log
    assert result.verdicts == ["The submission is not valid: wrong columns."]


def test_a_thousand_open_connections_do_not_delay_the_harness(attack: Runner) -> None:
    threads = threading.active_count()
    hold = (
        "import socket, time\nheld = []\nfor i in range(1000):\n"
        "    s = socket.socket(); s.setblocking(False); s.connect_ex(('127.0.0.1', 5000)); held.append(s)\n"
        "print('holding', flush=True); time.sleep(600)\n"
    )
    most: list[int] = []
    done = threading.Event()

    def count() -> None:
        while not done.wait(0.2):
            most.append(threading.active_count())

    threading.Thread(target=count, daemon=True).start()
    result = attack(f'{SUBMIT}; python3 -c "{hold}"', time_limit=3)
    done.set()
    assert result.execution.ending == Ending.TIMED_OUT
    assert "holding" in result.log
    assert max(most) - threads < 100


def test_a_flood_of_validations_is_slowed_down(attack: Runner) -> None:
    result = attack(
        f"{SUBMIT}; cd $SUBMISSION_DIR; "
        "for i in $(seq 60); do curl -s -F file=@submission.csv $VALIDATION_URL/validate; done"
    )
    assert len(result.verdicts) <= 31
    assert "Too many requests" in result.log
