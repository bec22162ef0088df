"""Attacks on the answers. Each test fails if the attack succeeds."""

from __future__ import annotations

import pytest

from tests.sandbox.scripted import Runner

pytestmark = pytest.mark.docker


def test_answers_are_not_in_the_file_system(attack: Runner) -> None:
    result = attack(
        "grep -rIl --exclude-dir=proc --exclude-dir=sys 'ANSWER-' / 2>/dev/null; "
        "find / -xdev -name 'answers*' -o -name private -path '*prepared*' 2>/dev/null; "
        "cat /proc/mounts | grep -i prepared/private; "
        f"ls {attack.private} {attack.public}/../private /home/data/../private 2>/dev/null; echo searched"
    )
    assert result.log.split() == ["searched"]


def test_the_checker_serves_no_files_and_reveals_no_answers(attack: Runner) -> None:
    result = attack(
        f"for path in / /answers.csv /../../private/answers.csv /validate {attack.private}/answers.csv; do "
        'curl -s --path-as-is "$VALIDATION_URL$path"; done; '
        f"curl -s -F 'file=@/etc/hostname;filename={attack.private}/answers.csv' $VALIDATION_URL/validate; "
        f"curl -s -F 'file=file://{attack.private}/answers.csv' $VALIDATION_URL/validate; "
        f"curl -s -F 'path={attack.private}/answers.csv' $VALIDATION_URL/validate; "
        "curl -s -X DELETE $VALIDATION_URL/validate; curl -s -X PUT -d x $VALIDATION_URL/validate"
    )
    assert "Not found" in result.log
    assert "ANSWER" not in result.log
    assert (attack.private / "answers.csv").exists()


def test_the_sockets_of_the_harness_are_inaccessible(attack: Runner) -> None:
    result = attack(
        "cd /opt/mlebench/private/harness 2>/dev/null && echo in; "
        "for name in line checker proxy; do "
        "curl -s --unix-socket /opt/mlebench/private/harness/$name.sock http://x/health && echo reached; done; "
        "ls /proc/1/root/opt/mlebench/private /proc/1/fd 2>/dev/null; echo tried"
    )
    assert result.log.split() == ["tried"]
