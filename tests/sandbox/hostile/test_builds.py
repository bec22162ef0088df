"""Attacks while an image is built: a Dockerfile runs as root before any sandbox exists."""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import docker
import pytest

from pytest_mlebench.agents import Agent
from pytest_mlebench.errors import SandboxError
from pytest_mlebench.io.progress import event_text, log_reported
from pytest_mlebench.sandbox.docker.client import ContainerOptions
from pytest_mlebench.sandbox.docker.images import Images
from pytest_mlebench.sandbox.docker.images import logger as builder_log
from pytest_mlebench.sandbox.dockerfile import BuildNetwork, Rules
from tests.sandbox.conftest import require_docker
from tests.sandbox.hostile.listener import Listener
from tests.sandbox.scripted import ENGINE, docker_sandbox, engine, script_agent

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


def images(build_network: BuildNetwork = "full", **limits: Any) -> Images:
    return Images(engine(), ContainerOptions(build_network=build_network), **limits)


def build(agent: Agent, *commands: str, build_network: BuildNetwork = "full", **limits: Any) -> list[str]:
    """Build with these limits of ``Images`` and return the output. Each Dockerfile is new, so no cache is used."""
    lines: list[str] = []
    agent.dockerfile.write_text(
        "\n".join(
            [f"FROM mlebench-env\nENV NONCE={uuid.uuid4().hex}", "COPY . /context", *map("RUN {}".format, commands)]
        )
    )
    docker_sandbox().images.environment()  # type: ignore[attr-defined]
    with log_reported(lambda event: lines.append(event_text(event)), builder_log, logging.DEBUG):
        images(build_network, **limits).agent(agent)
    return lines


def reach(*urls: str) -> str:
    """A command that prints `status CODE URL` for each; 000 means no connection."""
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
        agent, reach(*urls, "https://example.com/"), "ls /sys/class/net | sed s/^/net./", build_network="none"
    )
    assert statuses(lines) == {"000"} and not listener.callers
    assert [line for line in lines if line.startswith("net.")] == ["net.lo"]


@pytest.mark.skipif(ENGINE == "podman", reason="Podman's builder rejects such a network")
def test_a_dockerfile_wants_more_than_registries(client: docker.DockerClient, agent: Agent, listener: Listener) -> None:
    direct = reach("https://example.com/", "http://example.com/", "http://169.254.169.254/latest/meta-data/")
    lines = build(
        agent,
        direct,
        direct.replace("curl", "curl --noproxy '*'"),
        reach(*(f"http://{host}:{listener.port}/" for host in listener.addresses if host.startswith("127."))),
        "getent hosts example.com && echo status resolved; true",
        build_network="registries",
    )
    assert statuses(lines) <= {"000", "403"} and not listener.callers


@pytest.mark.parametrize("link", ["../../private", "../../private/answers.csv", "/etc"])
def test_an_agent_folder_wants_the_answers_in_its_image(client: docker.DockerClient, agent: Agent, link: str) -> None:
    (agent.folder / "data").symlink_to(link)
    with pytest.raises(SandboxError, match="a link that leaves the agent's folder"):
        build(agent, "grep -r ANSWER /context")


def test_a_dockerfile_wants_files_from_above_its_folder(client: docker.DockerClient, agent: Agent) -> None:
    agent.dockerfile.write_text("FROM mlebench-env\nCOPY ../../private /private\n")
    with pytest.raises(SandboxError, match="does not build"):
        images().agent(agent)
    lines = build(agent, "find / -xdev -name 'answers*' | sed s/^/found./", "ls -A /context | sed s/^/context./")
    assert [line for line in lines if line.startswith(("found.", "context."))] == [
        "context.Dockerfile",
        "context.start.sh",
    ]


def test_a_dockerfile_wants_all_memory(client: docker.DockerClient, agent: Agent) -> None:
    with pytest.raises(SandboxError, match="does not build"):
        build(agent, "python3 -c 'x = bytearray(1 << 29); print(\"had it\")'", build_memory=64 << 20)


def test_a_dockerfile_wants_to_build_forever(client: docker.DockerClient, agent: Agent) -> None:
    with pytest.raises(SandboxError, match="takes longer than 3 seconds"):
        build(agent, "while true; do echo still building; sleep 0.1; done", build_seconds=3.0)


def test_a_dockerfile_wants_the_user_to_pull_an_image(client: docker.DockerClient, agent: Agent) -> None:
    with pytest.raises(SandboxError, match="its log ends with:") as caught:
        build(agent, f"echo 'Step 1/1 : FROM evil.example/x' {'x' * 30_000} && false")
    assert "docker pull" not in str(caught.value) and len(str(caught.value)) < 10_000


def test_a_dockerfile_wants_the_whole_disk(client: docker.DockerClient, agent: Agent) -> None:
    base = int(client.images.get(docker_sandbox().images.environment()).attrs["Size"])  # type: ignore[attr-defined]
    with pytest.raises(SandboxError, match=r"image mlebench-agent-builder:.* the limit is"):
        build(agent, "head -c 64M /dev/urandom > /fill", max_bytes=base + (20 << 20))


def test_a_dockerfile_wants_to_replace_the_first_process(client: docker.DockerClient, agent: Agent) -> None:
    lines = build(agent, "echo '#!/bin/sh' > /opt/mlebench/init.py")
    assert lines  # test_outcomes.py checks that the harness's program runs anyway


FETCHES = {
    "a URL": "ADD https://example.com/x /x",
    "a URL in a list": 'ADD ["https://example.com/x", "/x"]',
    "a URL in quotes": 'ADD h"ttps:/"/example.com/x /x',
    "a URL in a variable": "ENV A=https://example.com/x\nADD $A /x",
    "a URL after a flag": "ADD --chown=1:1 HTTP://example.com/x /x",
    "a URL over two lines": "ADD \\\n# a remark\n\n  https://example.com/x /x",
    "a URL with another escape character": "ADD `\n https://example.com/x /x",
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
    expected = rf"(ADD '|FROM( \$X)?: |COPY: ).*build-network={network} the builder fetches nothing"
    with pytest.raises(SandboxError, match=expected):
        images(network).agent(agent)


def _base_of(tag: str) -> str:
    """A second name of an image, as bundled base images have."""
    return tag.partition(":")[0] + "-base"


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An image of another agent that contains a secret of its author."""
    require_docker()
    client = docker.from_env()
    folder = tmp_path_factory.mktemp("agents") / f"builder-other-{os.getpid()}"  # workers share the engine
    folder.mkdir(parents=True)
    (folder / "start.sh").write_text("true\n")
    (folder / "secret").write_text("SECRET-29")
    (folder / "Dockerfile").write_text("FROM mlebench-env\nONBUILD ADD https://example.com/x /x\nCOPY secret /secret\n")
    other = replace(script_agent(), folder=folder, start=folder / "start.sh", dockerfile=folder / "Dockerfile")
    docker_sandbox().images.environment()  # type: ignore[attr-defined]
    tag = images().agent(other)
    base = _base_of(tag)
    client.images.get(tag).tag(base, "latest")
    yield tag
    client.images.remove(f"{base}:latest", force=True)
    client.images.remove(tag, force=True)
    client.close()


IMAGES = {
    "a copy": "COPY --from={image} /secret /x",
    "a copy with another flag": "COPY --chown=1:1 --from={image} --chmod=644 /secret /x",
    "a copy over two lines": "COPY \\\n --from={image} \\\n# a remark\n /secret /x",
    "a copy in lower case": "copy --from={image} /secret /x",
    "a copy by another name": "COPY --from={base} /secret /x",
    "a copy by its digest": "COPY --from={id} /secret /x",
    "a copy by the digest alone": "COPY --from={short} /secret /x",
    "a copy with a flag in quotes": 'COPY --fr"om"={image} /secret /x',
    "a copy of an image in quotes": 'COPY --from="{image}" /secret /x',
    "a copy with a variable": "ARG I={image}\nCOPY --from=$I /secret /x",
    "a copy from a stage that comes later": "COPY --from=late /secret /x\nFROM {image} AS late",
    "a stage": "FROM {image}",
    "a stage with a name": "FROM {image} AS mlebench-env",
    "a stage by its digest": "FROM {id}",
    "a mount": "RUN --mount=from={image},target=/m cat /m/secret",
    "a mount of a kind": "RUN --mount=type=bind,source=/,from={image},target=/m cat /m/secret",
    "a mount in quotes": 'RUN --mount=type=bind,"from={image}",target=/m cat /m/secret',
    "a mount twice": "RUN --mount=target=/n --mount=from={image},target=/m cat /m/secret",
    "a mount with two sources": "RUN --mount=from=base,from={image},target=/m cat /m/secret",
    "a cache of another build": "RUN --mount=type=cache,id=pip,target=/m cat /m/*",
    "a secret of the builder": "RUN --mount=type=secret,id=x cat /run/secrets/x",
    "the builder's keys": "RUN --mount=type=ssh cat $SSH_AUTH_SOCK",
    "this machine's network": "RUN --network=host curl http://localhost:1",
    "more rights": "RUN --security=insecure mount",
    "a trigger": "ONBUILD COPY --from={image} /secret /x",
    "a here-document": "RUN <<EOF\ncat /secret\nEOF",
    "an image of a file": "FROM oci-archive:image.tar",
    "an image of a folder": "FROM dir:/var/lib/docker",
    "an image of the engine": "FROM docker-daemon:{image}",
    "an image of a store": "FROM containers-storage:{image}",
    "an image of a registry of this machine": "FROM localhost:5000/secret",
    "an image of a registry without a domain": "FROM registry:5000/secret",
    "an image above its folder": "FROM debian/../{image}",
    "an image without a name": "FROM docker.io/",
    "an image of a private registry": "COPY --from=registry.example.com/team/secret /secret /x",
    "an included file": "INCLUDE other",
    "a line with another line ending": "RUN true\x0bx\nCOPY --from={image} /secret /x",
}


@pytest.mark.parametrize("what", IMAGES)
def test_a_dockerfile_wants_another_image(what: str, client: docker.DockerClient, agent: Agent, other: str) -> None:
    id = str(client.images.get(other).id)
    line = IMAGES[what].format(image=other, base=_base_of(other), id=id, short=id.removeprefix("sha256:")[:12])
    agent.dockerfile.write_text(f"FROM mlebench-env AS base\n\n{line}\n")
    with pytest.raises(SandboxError, match=r"Dockerfile: line [345]: "):
        images().agent(agent)


@pytest.mark.parametrize("first", ["# syntax=example.com/evil", "#syntax = evil/dockerfile:1", "#!/x\n# syntax=evil/x"])
def test_a_dockerfile_wants_another_program_to_read_it(first: str, client: docker.DockerClient, agent: Agent) -> None:
    agent.dockerfile.write_text(f"{first}\nFROM mlebench-env\n")
    with pytest.raises(SandboxError, match=r"Dockerfile: line [12]: syntax="):
        images().agent(agent)


def test_a_configuration_wants_another_image_as_its_base(client: docker.DockerClient, agent: Agent, other: str) -> None:
    agent.dockerfile.write_text("FROM mlebench-env\nCOPY --from=0 /secret /x\n")
    with pytest.raises(SandboxError, match=r"base_image: the image .*built on this machine"):
        images().agent(replace(agent, base_image=other))


def test_a_bundled_agent_is_built_from_the_base_that_the_package_names(
    client: docker.DockerClient, agent: Agent, other: str
) -> None:
    """Without a registry, as after `docker load`, an image looks as if it was built on this machine."""
    with pytest.raises(SandboxError, match=r"mlebench-env.* does not build"):  # this one has no shell
        images().agent(replace(agent, base_image=other, bundled=True))


def test_honest_dockerfiles_build(client: docker.DockerClient, agent: Agent) -> None:
    docker_sandbox().images.environment()  # type: ignore[attr-defined]
    agent.dockerfile.write_text(
        "# syntax=docker/dockerfile:1\n# a remark\nARG BASE=mlebench-env\nFROM mlebench-env AS First\n"
        "RUN echo 'FROM x' > /x && echo $((1<<3))\n"
        "FROM scratch AS second\nCOPY --from=first --chown=0:0 /x /y\n"
        "FROM mlebench-env:latest\nCOPY --from=0 /x /0\nCOPY --from=second /y /1\nADD start.sh /2\n"
    )
    assert images().agent(agent)


class _Registry:
    """A fake of the engine's pulled images."""

    def triggers(self, image: str) -> list[str] | None:
        return {"evil": ["ADD https://example.com/x /x"], "worse": ["COPY --from=local /x /x"]}.get(image, [])

    def registries(self, image: str) -> list[str]:
        return [] if image == "local" else [image]


@pytest.mark.parametrize(("image", "problem"), [("evil", "ADD 'https:"), ("worse", "COPY: the image 'local'")])
def test_a_base_image_wants_more_when_it_is_built_on(image: str, problem: str) -> None:
    with pytest.raises(SandboxError, match=rf"line 2: {problem}.*\(an ONBUILD of '{image}'\)"):
        Rules(_Registry(), fetching=False).check(f"# x\nFROM {image}\n")


@pytest.mark.parametrize("name", ["names", "pipe", "patterns", "text of .dockerignore"])
def test_an_agent_folder_wants_to_break_the_harness_with_its(
    name: str, client: docker.DockerClient, agent: Agent
) -> None:
    if name == "names":
        (agent.folder / os.fsdecode(b"\xff\n\x1b[2J")).write_text("x")
        (agent.folder / "Dockerfile.mlebench").write_text("FROM registry.example.com/evil\n")
    elif name == "pipe":
        os.mkfifo(agent.folder / "pipe")
    else:
        patterns = b"!\n**\\\n[\n[z-a]\n***/**\n# x\n"
        (agent.folder / ".dockerignore").write_bytes(patterns if name == "patterns" else b"\xff\xfe\n")
    try:
        lines = build(agent, "echo built")
    except SandboxError as error:
        known = ("does not build", "cannot be packed", "/pipe is neither a file nor a folder nor a link: remove it")
        assert any(why in str(error) for why in known)
    else:
        assert "built" in lines
