"""Runs scripts as agents in any sandbox."""

from __future__ import annotations

import os
import resource
import shutil
import textwrap
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import docker
import psutil
import pytest
from docker.types import Ulimit

from pytest_mlebench import Bench
from pytest_mlebench.agents import Agent, Launch
from pytest_mlebench.agents.registry import read_config
from pytest_mlebench.errors import SandboxError
from pytest_mlebench.sandbox import Execution, Limits, Sandbox, Task
from pytest_mlebench.sandbox.collection import Snapshots

MB = 1 << 20
AGENTS = Path(__file__).parent / "agents"
SAMPLE = "id,label\n1,0\n2,0\n"
VALID = "The submission is valid."
SUBMIT = 'cp "$DATA_DIR/sample_submission.csv" "$SUBMISSION_DIR/submission.csv"'


ENGINE = os.environ.get("MLEBENCH_TEST_ENGINE", "docker")
"""The engine for tests of containers: ``docker``, ``podman`` or ``apptainer``."""
RUNTIME = os.environ.get("MLEBENCH_TEST_RUNTIME")
"""Its runtime, if not the default."""


_FILES = min(1024, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
PLAIN: dict[str, Any] = {
    "ulimits": [Ulimit(name=name, soft=_FILES, hard=_FILES) for name in ("nofile", "nproc")],
}
"""Arguments of a container that a test creates itself: Podman's default limits exceed what it may have."""


@cache
def engine_problem() -> str:
    """The reason if there is no engine; otherwise "". Podman's service is used by this process and its children."""
    from pytest_mlebench.sandbox.docker.podman import open_client

    if ENGINE == "apptainer":
        return "" if shutil.which("apptainer") else "there is no Apptainer"
    try:
        engine = open_client(ENGINE, RUNTIME)
    except SandboxError as error:
        return str(error)
    if ENGINE == "podman":
        os.environ["CONTAINER_HOST"] = os.environ["DOCKER_HOST"] = engine.host  # for docker.from_env()
        _engines.append(engine)  # keeps the service running
    else:
        engine.close()
    return ""


_engines: list[Any] = []


@cache
def engine() -> Any:
    """The ``ContainerClient`` of the engine under test."""
    from pytest_mlebench.sandbox.docker.podman import open_client

    return open_client(ENGINE, RUNTIME)


@cache
def docker_sandbox(**options: Any) -> Sandbox:
    """Containers of the engine under test."""
    if ENGINE == "apptainer":
        return _apptainer_sandbox(**options)
    from pytest_mlebench.sandbox.docker.sandbox import DockerSandbox

    usual = {"engine": ENGINE, "runtime": RUNTIME, "allow_unenforced_limits": ENGINE != "docker"}
    return DockerSandbox(**{"reporter": print, **usual, **options})


def _apptainer_sandbox(**options: Any) -> Sandbox:
    """Apptainer's sandbox; ``MLEBENCH_TEST_SIF`` is the folder of images that later tests reuse."""
    if foreign := options.keys() - {"network", "allow_hosts"}:
        pytest.skip(f"Apptainer has no {', '.join(foreign)}")
    usual = {"network": "llm", "build_network": "full", "sif": os.environ["MLEBENCH_TEST_SIF"]}
    return Bench(sandbox="apptainer", reporter=print, **{**usual, **options}).building_sandbox()


def kill_containers() -> None:
    """Kill all containers of this process from outside the harness."""
    if ENGINE == "apptainer":
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                process.kill()
        return
    with closing(docker.from_env()) as client:
        for container in client.containers.list(filters={"label": f"mlebench.pid={os.getpid()}"}):
            container.kill()


@cache
def local_sandbox() -> Sandbox:
    from pytest_mlebench.sandbox.local.sandbox import LocalSandbox

    return LocalSandbox()


SANDBOXES: dict[str, Callable[[], Sandbox]] = {"local": local_sandbox, "docker": docker_sandbox}
"""The sandboxes that the self-check suite runs in. With ``MLEBENCH_TEST_ENGINE=apptainer``, ``docker`` is Apptainer."""
if ADDED := os.environ.get("MLEBENCH_TEST_SANDBOX"):  # added by another package
    SANDBOXES[ADDED] = lambda: Bench(sandbox=ADDED).sandbox(script_agent())


def script_agent(**changes: Any) -> Agent:
    (agent,) = read_config(AGENTS / "script/config.yaml")
    return replace(agent, **changes)


def python(code: str) -> str:
    """A script that runs Python code."""
    return f"cat > ${{TMPDIR:-/tmp}}/x.py <<'EOF'\n{textwrap.dedent(code)}\nEOF\npython3 ${{TMPDIR:-/tmp}}/x.py"


@dataclass
class Result:
    execution: Execution
    run_dir: Path
    verdicts: list[str]

    @property
    def log(self) -> str:
        return (self.run_dir / "run.log").read_text(errors="replace")

    @property
    def submission(self) -> str | None:
        path = self.run_dir / "submission/submission.csv"
        return path.read_text() if path.is_file() and not path.is_symlink() else None


@dataclass
class Runner:
    """Runs scripts as agents; ``public`` is the data they can see, ``private`` the data they must not see."""

    sandbox: Sandbox
    folder: Path
    public: Path
    private: Path
    runs: int = 0
    verdicts: list[str] = field(default_factory=list)

    def task(
        self,
        script: str,
        *arguments: str,
        agent: Agent | None = None,
        environment: dict[str, str] | None = None,
        secrets: frozenset[str] = frozenset(),
        keep: bool = False,
        validate: Callable[[Path], str] | None = None,
        snapshots: Snapshots | None = None,
        grace_seconds: float | None = None,
        **limits: Any,
    ) -> Task:
        self.runs += 1
        return Task(
            competition_id="toy-competition",
            agent=agent or script_agent(),
            launch=Launch(
                arguments=("--script", script, "agent", *arguments), environment=environment or {}, secrets=secrets
            ),
            public=self.public,
            run_dir=self.folder / f"run-{self.runs}",
            validate=validate or self._validate,
            limits=Limits(**{"time_limit": 60, "memory": 512 * MB, **limits}),
            labels={"run_group": "tests", "run_id": f"toy_{self.runs}", "worker": "gw0"},
            snapshots=snapshots,
            grace_seconds=grace_seconds,
            keep=keep,
        )

    def __call__(self, script: str, *arguments: str, **options: Any) -> Result:
        task = self.task(script, *arguments, **options)
        return Result(self.sandbox.run(task), task.run_dir, self.verdicts)

    def _validate(self, path: Path) -> str:
        verdict = VALID if path.read_bytes()[:9] == b"id,label\n" else "The submission is not valid: wrong columns."
        self.verdicts.append(verdict)
        return verdict


def make_runner(sandbox: Sandbox, folder: Path) -> Runner:
    public, private = folder / "prepared/public", folder / "prepared/private"
    for data in (public, private):
        data.mkdir(parents=True)
    (public / "description.md").write_text("Predict the label.\n")
    (public / "sample_submission.csv").write_text(SAMPLE)
    (public / "images").mkdir()
    (public / "images/1.txt").write_text("an image")
    (private / "answers.csv").write_text("id,label\n1,ANSWER-7f3a\n2,ANSWER-9c1b\n")
    for path in public.rglob("*"):  # like the data store
        path.chmod(path.stat().st_mode & 0o555)
    return Runner(sandbox, folder, public, private)
