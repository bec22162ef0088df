"""Images are built once, when they are needed, and rebuilt when their content changes."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import docker
import docker.errors
import pytest

from pytest_mlebench.agents.registry import Agent
from pytest_mlebench.errors import SandboxError
from pytest_mlebench.io.files import bundled
from pytest_mlebench.io.progress import Event, Note, Step, log_reported
from pytest_mlebench.sandbox.docker.client import ContainerClient, ContainerOptions
from pytest_mlebench.sandbox.docker.images import Images, unavailable_base
from pytest_mlebench.sandbox.docker.images import logger as builder_log
from pytest_mlebench.sandbox.docker.podman import open_client
from pytest_mlebench.sandbox.dockerfile import Recipe
from tests.sandbox.scripted import ENGINE, RUNTIME, docker_sandbox, script_agent

pytestmark = pytest.mark.docker

NOTE = uuid.uuid4().hex  # so that no image of another session is reused
ENVIRONMENT = """
ARG BASE_IMAGE
FROM ${BASE_IMAGE}
RUN useradd nonroot && mkdir -p /home/data
COPY note.txt /note.txt
"""
DOCKERFILE = """
FROM mlebench-env
ARG SUBMISSION_DIR
ARG LOGS_DIR
ARG CODE_DIR
ARG AGENT_DIR
RUN echo "$SUBMISSION_DIR $LOGS_DIR $CODE_DIR $AGENT_DIR" > /places
COPY . ${AGENT_DIR}
"""


@dataclass
class Workshop:
    """A small separate environment and an agent; all its images are removed at the end."""

    engine: ContainerClient
    environment: Path
    agent: Agent
    made: set[str]
    events: list[Event] = field(default_factory=list)
    printed: list[Event] = field(default_factory=list)

    @property
    def client(self) -> docker.DockerClient:
        return self.engine.client

    def images(self) -> Images:
        return Images(self.engine, ContainerOptions(), reporter=self._report, folder=self.environment)

    def _report(self, event: Event) -> None:
        self.events.append(event)
        if isinstance(event, Step) and event.activity == "building":
            self.made.add(event.subject)

    def build(self) -> str:
        self.events.clear()
        self.printed.clear()
        with log_reported(self.printed.append, builder_log, logging.DEBUG):
            return self.images().agent(self.agent)

    @property
    def built(self) -> list[str]:
        steps = [event for event in self.events if isinstance(event, Step) and event.activity == "building"]
        return [step.subject.split(":")[0] for step in steps]

    @property
    def said(self) -> list[str]:
        """The output of the builder."""
        return [event.text for event in self.printed if isinstance(event, Note)]

    def sh(self, image: str, command: str) -> str:
        container = self.client.containers.run(image, ["-c", command], entrypoint="sh", detach=True)
        try:
            assert container.wait()["StatusCode"] == 0
            return container.logs().decode()
        finally:
            container.remove(force=True)


@pytest.fixture(scope="module")
def made() -> Iterator[set[str]]:
    """The tags of all images that these tests built; they are removed at the end."""
    tags: set[str] = set()
    yield tags
    client = docker.from_env()
    for tag in sorted(tags):  # agents before their environments
        with suppress(docker.errors.ImageNotFound):
            client.images.remove(tag, force=True)


@pytest.fixture
def workshop(docker_engine: None, tmp_path: Path, made: set[str]) -> Iterator[Workshop]:
    environment = tmp_path / "environment"
    environment.mkdir()
    (environment / "Dockerfile").write_text(ENVIRONMENT)
    (environment / "note.txt").write_text(NOTE)
    folder = tmp_path / "agents" / f"workshop-{uuid.uuid4().hex[:8]}"
    folder.mkdir(parents=True)
    (folder / "start.sh").write_text("echo hello\n")
    (folder / "Dockerfile").write_text(DOCKERFILE)
    agent = replace(script_agent(), folder=folder, start=folder / "start.sh", dockerfile=folder / "Dockerfile")
    with closing(open_client(ENGINE, RUNTIME)) as engine:
        workshop = Workshop(engine, environment, agent, made)
        workshop.images().environment()
        yield workshop


def test_a_build_is_one_line_of_progress(workshop: Workshop) -> None:
    """The builder's hundreds of lines are shown only if it fails."""
    image = workshop.build()
    assert workshop.events == [Step(image, "building")]
    assert any("/places" in line for line in workshop.said)
    (workshop.agent.folder / "Dockerfile").write_text("FROM mlebench-env\nRUN echo what went wrong; false\n")
    with pytest.raises(SandboxError, match=r"does not build; its log ends with:\n(.|\n)*\nwhat went wrong\n"):
        workshop.build()


def test_an_unchanged_agent_is_not_rebuilt(workshop: Workshop) -> None:
    first = workshop.build()
    assert len(workshop.built) == 1
    started = time.monotonic()
    assert workshop.build() == first
    assert workshop.events == []
    assert time.monotonic() - started < 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('ENTRYPOINT ["/bin/serve", "now"]', r"the ENTRYPOINT of its Dockerfile \(/bin/serve now\) would not run"),
        ("RUN sudo apt-get install nothing", "there is no sudo, and none is needed"),
        ("RNU true", "'RNU' is not an instruction"),
    ],
)
def test_unsupported_dockerfile_instructions_are_reported(workshop: Workshop, line: str, message: str) -> None:
    with workshop.agent.dockerfile.open("a") as file:
        file.write(f"{line}\n")
    with pytest.raises(SandboxError, match=message) as caught:
        workshop.build()
    assert "http" not in str(caught.value)


def test_a_build_that_fails_leaves_no_connection_open(workshop: Workshop) -> None:
    with workshop.agent.dockerfile.open("a") as file:
        file.write("RUN false\n")
    before = _open_sockets(workshop.client)
    with pytest.raises(SandboxError, match="does not build") as caught:
        workshop.build()
    assert _open_sockets(workshop.client) <= before, caught.value  # its traceback references the frames of the build


def _open_sockets(client: docker.DockerClient) -> set[str]:
    client.close()  # idle ones
    return {str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.is_socket()}


def test_an_agent_may_create_its_folders_as_for_mle_bench(workshop: Workshop) -> None:
    with workshop.agent.dockerfile.open("a") as file:
        file.write("RUN mkdir ${LOGS_DIR} ${CODE_DIR}\n")
    folders = workshop.sh(workshop.build(), "stat -c '%U %n' /home/submission /home/logs /home/code /home/agent")
    assert [line.split()[0] for line in folders.splitlines()] == ["nonroot"] * 4


def test_every_change_in_the_agents_folder_rebuilds_only_the_agent(workshop: Workshop) -> None:
    folder = workshop.agent.folder
    changes: dict[str, Callable[[], object]] = {
        "nothing": lambda: None,
        "content": lambda: (folder / "start.sh").write_text("echo other\n"),
        "new file": lambda: (folder / "new").touch(),
        "new name": lambda: (folder / "new").rename(folder / "newer"),
        "program": lambda: (folder / "start.sh").chmod(0o755),
        "dockerfile": lambda: (folder / "Dockerfile").write_text(DOCKERFILE + "RUN true\n"),
        "link": lambda: (folder / "link").symlink_to("start.sh"),
    }
    tags = set()
    for change in changes.values():
        change()
        tags.add(workshop.build())
        assert len(workshop.built) == 1
    assert len(tags) == len(changes)


def test_changes_of_ignored_files_do_not_rebuild(workshop: Workshop) -> None:
    folder = workshop.agent.folder
    (folder / ".dockerignore").write_text("# mine\n*.log\ncache/\n")
    first = workshop.build()
    (folder / "run.log").write_text("x")
    for name in ("__pycache__", "cache"):
        (folder / name).mkdir()
        (folder / name / "x.pyc").write_text("x")
    assert workshop.build() == first
    (folder / "start.sh").write_text("echo other\n")
    assert workshop.sh(workshop.build(), "ls -A /home/agent").split() == ["Dockerfile", "start.sh"]


def test_a_change_of_the_environment_rebuilds_every_agent(workshop: Workshop) -> None:
    first = workshop.build()
    (workshop.environment / "note.txt").write_text(f"new {uuid.uuid4().hex}")
    second = workshop.build()
    assert second != first
    assert len(workshop.built) == 2
    assert workshop.sh(second, "cat /note.txt").startswith("new ")


def test_from_mlebench_env_means_this_sessions_environment_not_the_latest(workshop: Workshop) -> None:
    environment = workshop.images().environment()
    docker_sandbox().images.environment()  # type: ignore[attr-defined]  # `mlebench-env:latest` is another environment
    (workshop.agent.folder / "Dockerfile").write_text(
        "FROM debian:bookworm-slim AS first\nfrom mlebench-env:latest AS x\n"
    )
    note = (workshop.environment / "note.txt").read_text()
    assert workshop.client.images.get("mlebench-env:latest").id != workshop.client.images.get(environment).id
    assert workshop.sh(workshop.build(), "cat /note.txt") == note
    assert workshop.images().environment() == environment


def test_a_dockerfile_has_the_documented_build_arguments(workshop: Workshop) -> None:
    assert workshop.sh(workshop.build(), "cat /places").split() == [
        *("/home/submission", "/home/logs", "/home/code", "/home/agent")
    ]


def test_the_agent_owns_files_that_its_dockerfile_put_into_its_home(workshop: Workshop) -> None:
    (workshop.agent.folder / "start.sh").chmod(0o600)
    assert workshop.sh(workshop.build(), "stat -c %U /home/agent /home/agent/start.sh /home/data").split() == [
        *("nonroot", "nonroot", "root")
    ]


def test_an_agent_without_a_dockerfile_gets_its_folder(workshop: Workshop) -> None:
    (workshop.agent.folder / "Dockerfile").unlink()
    assert workshop.sh(workshop.build(), "cat /home/agent/start.sh") == "echo hello\n"


def test_a_failing_build_is_an_error_with_the_end_of_its_log(workshop: Workshop) -> None:
    dockerfile = workshop.agent.folder / "Dockerfile"
    dockerfile.write_text("FROM mlebench-env\nRUN seq 1000 && echo it went wrong here >&2 && exit 3\n")
    with pytest.raises(SandboxError) as caught:
        workshop.build()
    text = str(caught.value)
    assert str(workshop.agent.folder) in text
    assert "it went wrong here" in text
    assert "3" in text.splitlines()[-1]
    assert len(text.splitlines()) < 50
    dockerfile.write_text(DOCKERFILE)
    workshop.build()  # nothing of the failed build remains


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "Dockerfile: line 2: there must be a FROM before USER"),
        ("FROM\n", "Dockerfile: line 1: FROM takes an image"),
        ("RUN true\n", "Dockerfile: line 1: there must be a FROM before RUN"),
        ("# x\n\nNONSENSE\n", "Dockerfile: line 3: 'NONSENSE' is not an instruction"),
        ("FROM no-such-image-anywhere\n", "does not build"),
    ],
)
def test_an_invalid_dockerfile_is_an_error(workshop: Workshop, text: str, problem: str) -> None:
    (workshop.agent.folder / "Dockerfile").write_text(text)
    with pytest.raises(SandboxError, match=problem):
        workshop.build()


def test_an_unavailable_base_image_gives_a_one_line_error(workshop: Workshop) -> None:
    missing = f"localhost:1/no-such-image-{uuid.uuid4().hex}"
    with pytest.raises(SandboxError, match=rf"{missing} is not available: .*--base-image, or base_image:") as caught:
        workshop.images().environment(missing)
    missing = f"no-such-image-{uuid.uuid4().hex}"
    workshop.agent.dockerfile.write_text(f"FROM {missing}\n")
    with pytest.raises(SandboxError, match=rf"does not build: image {missing} .*FROM in its Dockerfile"):
        workshop.build()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("step", "base"),
    [
        ("Step 1/9 : FROM ${BASE_IMAGE}", "ubuntu:1"),
        ("STEP 1/9: FROM ubuntu:1", "ubuntu:1"),
        ("STEP 1/9: FROM --platform=linux/amd64 ubuntu:1 AS first", "ubuntu:1"),
        ("Step 2/9 : FROM tools", "tools"),
        ("Step 3/9 : FROM other", ""),
        ("Step 4/9 : RUN false", ""),
        ("", ""),
    ],
)
def test_the_base_image_of_a_failed_build_is_found_in_the_output_of_each_engine(step: str, base: str) -> None:
    text = "ARG BASE_IMAGE\nFROM ${BASE_IMAGE} AS first\nFROM tools\nRUN echo Step 3/9 : FROM other\n"
    recipe = Recipe(name="a", folder=Path(), dockerfile=text, arguments={"BASE_IMAGE": "ubuntu:1"})
    assert unavailable_base(step, recipe) == base


def test_workers_that_start_concurrently_build_once(workshop: Workshop) -> None:
    workshop.events.clear()
    tags: list[str] = []
    threads = [threading.Thread(target=lambda: tags.append(workshop.images().agent(workshop.agent))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(tags)) == 1
    assert len(tags) == 4
    assert len(workshop.built) == 1


# --- the real environment


def test_the_environment_is_small_and_contains_neither_the_harness_nor_answers(docker_engine: None) -> None:
    image = docker_sandbox().images.environment()  # type: ignore[attr-defined]
    client = docker.from_env()
    assert client.images.get(image).attrs["Size"] < 1_000_000_000
    command = (
        (
            "/opt/agent/bin/pip list 2>/dev/null | grep -ci mlebench; "
            "find / -xdev ( -path '*pytest_mlebench*' -o -name 'prepare.py' -o -name 'grade.py' -o -name golden.json ) "
            "-not -path '*/site-packages/*' | head; stat -c '%U %a' /opt/mlebench/init.py /opt/mlebench/private; "
            "id -un nonroot; ls /home"
        )
        .replace("(", r"\(")
        .replace(")", r"\)")
    )
    output: bytes = client.containers.run(image, ["-c", command], entrypoint="bash", remove=True)
    assert output.decode().split() == [
        *("0", "root", "755", "root", "700", "nonroot"),
        *("ask.sh", "data", "instructions.txt", "nonroot", "options.sh", "prompt.sh"),
        "validate_submission.sh",
    ]


def test_the_environments_folder_contains_only_known_files(docker_engine: None) -> None:
    names = {path.name for path in bundled("environment").iterdir()}
    assert names == {
        *("Dockerfile", "check.py", "conda", "heavy", "init.py", "instructions.txt", "requirements.txt"),
        *("validate_submission.sh", "prompt.sh", "ask.sh", "options.sh", "npm-install", "python-install"),
    }
