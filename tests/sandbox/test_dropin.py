"""An agent folder written for MLE-bench runs unchanged."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
import uuid
from pathlib import Path

import docker
import pytest

from pytest_mlebench.agents import AgentRegistry
from pytest_mlebench.sandbox import Ending
from tests.left import left
from tests.sandbox.scripted import AGENTS, SAMPLE, Result, Runner

pytestmark = pytest.mark.docker


DOCKERFILE = (AGENTS / "legacy/Dockerfile").read_text().partition("ARG CONDA_ENV_NAME")[0]


def test_mlebench_build_supports_a_dockerfile_that_creates_its_folders(docker_engine: None, tmp_path: Path) -> None:
    id = f"folders-{uuid.uuid4().hex[:8]}"
    folder = tmp_path / "agents" / id
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(f"{id}:\n  start: {id}/start.sh\n  dockerfile: {id}/Dockerfile\n")
    (folder / "start.sh").write_text("echo hello\n")
    (folder / "Dockerfile").write_text(f"{DOCKERFILE}COPY start.sh ${{AGENT_DIR}}/start.sh\n")
    command = [sys.executable, "-m", "pytest_mlebench.cli", "build", id, "--agents-dir", str(folder.parent)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stderr
    tag = re.findall(rf"^{id}: (\S+)$", done.stdout + done.stderr, re.M)[-1]
    client = docker.from_env()
    try:
        look = "cat /home/agent/start.sh; stat -c '%U %n' /home/logs /home/code /home/agent"
        said = client.containers.run(tag, ["-c", look], entrypoint="sh", remove=True).decode()
    finally:
        client.images.remove(tag, force=True)
        client.close()
    assert said.splitlines()[0] == "echo hello"
    assert [line.split()[0] for line in said.splitlines()[1:]] == ["nonroot"] * 3


def run_legacy(runner: Runner, id: str, environment: dict[str, str]) -> Result:
    agent = AgentRegistry(AGENTS)[id]
    task = dataclasses.replace(runner.task("", agent=agent), launch=agent.launch(environment))
    return Result(runner.sandbox.run(task), task.run_dir, [])


def test_an_agent_written_for_conda_and_omegaconf_runs_unchanged(run_in_container: Runner) -> None:
    result = run_legacy(run_in_container, "legacy", {"LEGACY_API_KEY": "sk-legacy-secret"})
    assert result.execution.ending == Ending.FINISHED, result.log
    assert result.submission == SAMPLE
    assert left(result.run_dir)["code/solution.py"] == b"print('solved')\n"
    assert "logs/journal.json" in left(result.run_dir)
    lines = result.log.splitlines()
    assert "arguments: agent.steps=3 agent.search.max_debug_depth=20 agent.code.model=model-large" in lines
    assert "steps: 3 key: *** in /opt/agent" in lines
    assert "Additional notes on toy-competition." in lines
    assert "environment: none" in lines
    assert "second: /opt/conda/envs/second" in lines


def test_a_variant_has_its_own_arguments(run_in_container: Runner) -> None:
    result = run_legacy(run_in_container, "legacy/dev", {})
    assert result.execution.ending == Ending.FINISHED, result.log
    assert "agent.code.model=model-small" in result.log
    assert "key: none" in result.log


def test_conda_is_found_wherever_scripts_look_for_it(run_in_container: Runner) -> None:
    result = run_in_container(
        "source /opt/conda/bin/activate agent; which python; conda deactivate; "
        "source /opt/conda/etc/profile.d/conda.sh; conda activate agent; echo $CONDA_DEFAULT_ENV; "
        "/opt/conda/bin/conda run -n agent --cwd /home/logs --live-stream pwd; "
        "conda run -n agent bash -c 'echo \"$1\"' x 'two words'; conda run -n agent false || echo failed; "
        "conda activate nowhere || echo no such; conda env list | grep -c agent; conda info --base; "
        "/opt/conda/envs/agent/bin/python -c 'import sklearn; print(sklearn.__name__)'; "
        "conda frobnicate || echo refused"
    )
    assert [line for line in result.log.splitlines() if not line.startswith("conda: ")] == [
        "/opt/agent/bin/python",
        "agent",
        "/home/logs",
        "two words",
        "failed",
        "no such",
        "2",
        "/opt/conda",
        "sklearn",
        "refused",
    ]
