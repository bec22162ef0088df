"""Attacks on the record: an agent wants its run to be an error of the harness, or the record to be false."""

from __future__ import annotations

import json
import textwrap
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import docker
import pytest

from pytest_mlebench.agents import Agent
from pytest_mlebench.sandbox import Ending
from tests.left import left
from tests.sandbox.scripted import MB, SAMPLE, SUBMIT, Runner, script_agent

pytestmark = pytest.mark.docker

FOLDERS = {
    "a file": "rm -rf $D; echo x > $D",
    "a loop of links": "rm -rf $D; ln -s $D $D",
    "a loop of two links": "rm -rf $D; ln -s $D.b $D; ln -s $D $D.b",
    "a link to the root": "rm -rf $D; ln -s / $D",
    "a link to its processes": "rm -rf $D; ln -s /proc/self $D",
    "a pipe": "rm -rf $D; mkfifo $D",
    "nothing": "rm -rf $D",
    "a closed folder": "chmod 0 $D",
    "a socket": "rm -rf $D; python3 -c 'import socket, os; socket.socket(socket.AF_UNIX).bind(os.environ[\"D\"])'",
    "a name that is not text": "cd $D; touch $'\\xff\\xfe' $'a\\nb' $'\\x1b[2J'",
    "a path too deep to follow": (
        'cd $D; python3 -c \'import os\nfor n in range(40): os.mkdir("d" * 250); os.chdir("d" * 250)\''
    ),
    "a file with a size of 8 TB": "truncate -s 8T $D/x",
}


@pytest.mark.parametrize("folder", FOLDERS)
def test_an_agent_wants_collection_to_fail_by_creating_its_folder(folder: str, attack: Runner) -> None:
    result = attack(
        f"export D=$SUBMISSION_DIR; {FOLDERS[folder]}; echo kept > $CODE_DIR/kept; exit 0", collect_bytes=64 * MB
    )
    assert (result.execution.ending, result.execution.exit_code) == (Ending.FINISHED, 0)
    assert left(result.run_dir)["code/kept"] == b"kept\n"
    json.dumps(result.execution.sandbox.to_json())


@pytest.fixture
def image() -> Iterator[str]:
    name = f"fake-{uuid.uuid4().hex[:8]}"
    yield name
    client = docker.from_env()
    for image in client.images.list(f"mlebench-agent-{name}"):
        client.images.remove(str(image.id), force=True)
    client.close()


def imposter(folder: Path, name: str, *, python: str = "", init: str = "") -> Agent:
    """An agent whose Dockerfile replaces the first process: its program, or the interpreter that runs it."""
    home = folder / "agents" / name
    home.mkdir(parents=True)
    (home / "start.sh").write_text(f"{SUBMIT}\nexit 3\n")
    lines = ["FROM mlebench-env", "COPY . /home/agent", "RUN mkdir -p /home/code && echo kept > /home/code/kept"]
    if init:
        (home / "init.py").write_text(textwrap.dedent(init))
        lines.append("RUN cp /home/agent/init.py /opt/mlebench/init.py && chmod 755 /opt/mlebench/init.py")
    if python:
        (home / "python").write_text("#!/usr/bin/python3.11 -I\n" + textwrap.dedent(python))
        lines.append(
            "RUN cp /home/agent/python /usr/bin/fake && chmod 755 /usr/bin/fake && ln -sf fake /usr/bin/python3"
        )
    (home / "Dockerfile").write_text("\n".join(lines) + "\n")
    return replace(script_agent(), folder=home, start=home / "start.sh", dockerfile=home / "Dockerfile")


SPEAK = """
    import socket, sys, time
    channel = socket.socket(socket.AF_UNIX)
    channel.connect("/opt/mlebench/private/harness/control.sock")
    channel.recv(1 << 20)
    channel.sendall(b'{"started": true}\\n')
"""
SPEECHES = {
    "junk": r"channel.sendall(b'\xff\xfe junk\n' * 100)",
    "deep nesting": r"channel.sendall(b'[' * 100_000 + b'\n')",
    "wrong types": r"""channel.sendall(b'{"exit_code": {"a": []}, "oom_kills": "many"}' + b'\n')""",
    "a line without an end": r"channel.sendall(b'x' * 10_000_000)",
    "a huge number": r"""channel.sendall(b'{"exit_code": ' + b'9' * 3000 + b'}\n')""",
    "silence and an end": "",
    "an exit code as if killed": "import os; os._exit(137)",
}


def test_an_image_wants_to_be_its_own_first_process(attack: Runner, tmp_path: Path, image: str) -> None:
    agent = imposter(tmp_path, image, init=SPEAK + r"""    channel.sendall(b'{"exit_code": 0, "oom_kills": 7}\n')""")
    result = attack("", agent=agent)
    assert (result.execution.ending, result.execution.exit_code) == (Ending.CRASHED, 3)  # the harness's program ran
    assert "memory" not in result.execution.detail


@pytest.mark.parametrize("speech", SPEECHES)
def test_an_image_wants_the_harness_to_fail_by_saying(speech: str, attack: Runner, tmp_path: Path, image: str) -> None:
    agent = imposter(tmp_path, image, python=SPEAK + f"    {SPEECHES[speech]}\n".lstrip(" ").join(["    ", ""]))
    result = attack("", agent=agent)
    assert result.execution.ending == Ending.CRASHED
    assert result.execution.exit_code is None
    assert left(result.run_dir) == {"code/kept": b"kept\n"}


@pytest.mark.parametrize("then", ["time.sleep(30)", "sys.exit(1)"])
def test_an_image_wants_to_count_kills_that_never_were(then: str, attack: Runner, tmp_path: Path, image: str) -> None:
    lie = r"""    channel.sendall(b'{"exit_code": 1, "oom_kills": 7}\n'); """ + then
    result = attack("", agent=imposter(tmp_path, image, python=SPEAK + lie))
    assert (result.execution.ending, result.execution.detail) == (Ending.CRASHED, "exit code 1")


def test_an_agent_wants_a_record_of_gigabytes(attack: Runner) -> None:
    flood = (
        "import socket, threading\n"
        "def call(n):\n"
        "    s = socket.create_connection(('localhost', 3128))\n"
        "    s.sendall(b'X' * 50000 + b' http://' + b'h' * 10000 + b'/ HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n')\n"
        "    s.recv(100)\n"
        "for n in range(300): call(n)\n"
    )
    result = attack(
        f"{SUBMIT}; cat > x.py <<'EOF'\n{flood}EOF\npython3 x.py; cd $LOGS_DIR; "
        "for i in $(seq 300); do ln -s x $(printf 'n%.0s' $(seq 240))$i; done; "
        "head -c 100000 /dev/zero | tr '\\0' c > big.csv; "
        "curl -s -F file=@big.csv $VALIDATION_URL/validate > /dev/null",
        validate=lambda path: f"not valid: {path.read_text()}",
    )
    assert result.submission == SAMPLE
    assert len(result.execution.sandbox.connections) == 300
    assert len(json.dumps(result.execution.sandbox.to_json())) < 500_000


def test_an_agent_wants_terminal_codes_and_lone_surrogates_in_the_record(attack: Runner) -> None:
    result = attack(
        "cd $LOGS_DIR; ln -s x $'\\x1b]0;owned\\x07'; ln -s x $'\\xed\\xa0\\x80'; "
        "printf 'CONNECT \\x1b[2J:443 HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n' | timeout 5 bash -c "
        "'exec 3<>/dev/tcp/127.0.0.1/3128; cat >&3; cat <&3' > /dev/null",
    )
    text = json.dumps(result.execution.sandbox.to_json())
    text.encode()
    assert result.execution.ending in (Ending.FINISHED, Ending.CRASHED)
