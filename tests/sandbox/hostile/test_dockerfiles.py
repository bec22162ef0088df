"""Attacks through declarations of a Dockerfile for its container. Each test fails if the attack succeeds."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import docker
import pytest

from pytest_mlebench.agents import Agent
from pytest_mlebench.errors import SandboxError
from pytest_mlebench.sandbox import Ending
from tests.sandbox.hostile.test_disk import needs_root
from tests.sandbox.scripted import AGENTS, ENGINE, MB, SAMPLE, SUBMIT, Runner, script_agent

pytestmark = [pytest.mark.docker, pytest.mark.serial]

Declare = Callable[..., Agent]


@pytest.fixture
def declare(docker_engine: None, tmp_path: Path) -> Iterator[Declare]:
    """Creates an agent for a test from a Dockerfile with these lines."""
    name = f"declares-{uuid.uuid4().hex[:8]}"

    def agent(*lines: str) -> Agent:
        folder = tmp_path / "agents" / name
        folder.mkdir(parents=True)
        (folder / "start.sh").write_bytes((AGENTS / "script/start.sh").read_bytes())
        (folder / "Dockerfile").write_text("\n".join(["FROM mlebench-env", *lines, "COPY . /home/agent", ""]))
        return replace(script_agent(), folder=folder, start=folder / "start.sh", dockerfile=folder / "Dockerfile")

    yield agent
    client = docker.from_env()
    for image in client.images.list(f"mlebench-agent-{name}"):
        client.images.remove(str(image.id), force=True)
    client.close()


@needs_root
@pytest.mark.parametrize("way", ["dots", "a link", "a link of its parent"])
def test_a_volume_wants_to_be_a_folder_of_this_machine(way: str, attack: Runner, declare: Declare) -> None:
    victim = attack.private
    lines = {
        "dots": [f'VOLUME ["/../../../..{victim}"]'],
        "a link": [f"RUN ln -s {victim} /door", "VOLUME /door"],
        "a link of its parent": ["RUN ln -s / /door", f"VOLUME /door{victim}"],
    }[way]
    before = sorted(victim.iterdir())
    with pytest.raises(SandboxError, match=r"VOLUME .*(not a plain path|through a link)"):
        attack(
            f"cat {victim}/* /door/* /door{victim}/*; touch /door/x /door{victim}/x",
            agent=declare(*lines),
            disk=64 * MB,
        )
    assert sorted(victim.iterdir()) == before


def test_a_health_check_wants_to_run_as_root(attack: Runner, declare: Declare) -> None:
    agent = declare("HEALTHCHECK --interval=1s CMD id > /tmp/health; kill -9 1")
    result = attack(f"{SUBMIT}; sleep 2.5; cat /tmp/health; exit 4", agent=agent)
    assert (result.execution.exit_code, result.submission) == (4, SAMPLE)
    assert "uid" not in result.log


def test_the_agents_user_wants_to_be_root_by_another_name(attack: Runner, declare: Declare) -> None:
    agent = declare("RUN sed -i 's/^nonroot:x:[0-9]*/nonroot:x:0/' /etc/passwd")
    result = attack("id", agent=agent)
    assert result.execution.ending == Ending.CRASHED
    assert "uid" not in result.log and "another name for root" in result.log


def test_labels_want_to_keep_the_container_of_a_dead_session(declare: Declare, attack: Runner) -> None:
    from pytest_mlebench.sandbox.docker.cleanup import clean

    agent = declare("LABEL mlebench.keep=true mlebench.pid=1 mlebench.host=other mlebench.run-group=other")
    labels: list[dict[str, str]] = []
    client = docker.from_env()

    def look(path: Path) -> str:
        own = f"mlebench.pid={os.getpid()}"  # other tests run in parallel
        found = client.containers.list(filters={"label": [own, "mlebench.keep"]})
        labels.extend(dict(container.labels) for container in found)
        return "seen"

    attack(
        f"{SUBMIT}; curl -s -F file=@$SUBMISSION_DIR/submission.csv $VALIDATION_URL/validate",
        agent=agent,
        validate=look,
    )
    (own,) = [found for found in labels if found["mlebench.run-id"].startswith("toy_")]
    assert own["mlebench.keep"] == "false" and own["mlebench.pid"] != "1" and own["mlebench.run-group"] == "tests"
    dead = client.containers.create("mlebench-env", "true", labels={**own, "mlebench.pid-start": "1"})
    try:
        assert str(dead.name) in [leftover.name for leftover in clean(ENGINE, dry_run=True)]
    finally:
        dead.remove(force=True)
        client.close()


def test_settings_of_the_image_want_the_first_process(attack: Runner, declare: Declare) -> None:
    agent = declare(
        "RUN echo 'echo stolen $(id -u)' > /evil.sh",
        "RUN echo 'print(\"stolen 0\")' > /usr/lib/python3/dist-packages/usercustomize.py",
        "ENV PYTHONSTARTUP=/evil.sh PYTHONPATH=/ PYTHONHOME=/nowhere PATH=/evil:/usr/bin:/bin",
        "ENV BASH_ENV=/evil.sh ENV=/evil.sh",
        'SHELL ["/bin/false"]',
        "STOPSIGNAL SIGWINCH",
        "WORKDIR /proc/self",
        "USER 12345",
        'CMD ["/evil.sh"]',
    )
    result = attack(f"{SUBMIT}; id -u; exit 5", agent=agent)
    assert (result.execution.exit_code, result.submission) == (5, SAMPLE)
    assert "stolen 0" not in result.log and result.log.split()[-1] not in ("0", "12345")
