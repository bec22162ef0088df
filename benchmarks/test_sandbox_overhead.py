"""The overhead of the harness: creating the container, starting the agent, collecting files, removing the container.

It is compared with a bare container of the same image, and must be below two seconds. With
`MLEBENCH_TEST_ENGINE=apptainer` (see `.ci/apptainer`), the containers are Apptainer's.
"""

from __future__ import annotations

import itertools
import statistics
import subprocess
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_mlebench.agents.registry import Agent, Launch
from pytest_mlebench.extras.apptainer.disk import CONFINED, NO_NETWORK
from pytest_mlebench.sandbox import Ending, Limits, Task
from tests.sandbox.scripted import ENGINE, docker_sandbox, engine_problem

ROUNDS = 7
MOST_SECONDS = 2.0


@pytest.fixture
def task(tmp_path: Path) -> Task:
    folder = tmp_path / "agents/overhead"
    folder.mkdir(parents=True)
    (folder / "start.sh").write_text('cp "$DATA_DIR/sample_submission.csv" "$SUBMISSION_DIR/submission.csv"\n')
    public = tmp_path / "public"
    public.mkdir()
    (public / "sample_submission.csv").write_text("id,label\n1,0\n")
    return Task(
        competition_id="overhead",
        agent=Agent(id="overhead", folder=folder, start=folder / "start.sh", dockerfile=folder / "Dockerfile"),
        launch=Launch(),
        public=public,
        run_dir=tmp_path / "runs",
        validate=lambda path: "",
        limits=Limits(memory=1 << 30, cpus=1, disk=1 << 30),
    )


@pytest.mark.docker
def test_a_run_costs_little_more_than_a_bare_container(benchmark, task: Task) -> None:  # type: ignore[no-untyped-def]
    if problem := engine_problem():
        pytest.skip(problem)
    sandbox: Any = docker_sandbox()
    image = sandbox.images.agent(task.agent)
    if ENGINE == "apptainer":
        file = str(sandbox.images.file(image))
        command = ["apptainer", "--silent", "exec", *CONFINED, *NO_NETWORK, file, "/bin/true"]
    else:
        command = ["docker", "run", "--rm", "--network=none", "--entrypoint=/bin/true", image]
    bare = statistics.median(_seconds(command) for _ in range(ROUNDS))
    numbers = itertools.count()

    def run() -> None:
        execution = sandbox.run(replace(task, run_dir=task.run_dir / str(next(numbers))))
        assert execution.ending == Ending.FINISHED

    benchmark.pedantic(run, rounds=ROUNDS, warmup_rounds=1)
    harness = benchmark.stats.stats.median
    benchmark.extra_info.update(bare_seconds=bare, overhead_seconds=harness - bare, ratio=harness / bare)
    print(f"bare {bare:.3f} s, with the harness {harness:.3f} s, ratio {harness / bare:.2f}")
    assert harness - bare < MOST_SECONDS


def _seconds(command: Sequence[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True)
    return time.perf_counter() - started
