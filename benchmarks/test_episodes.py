"""The cost of episodes: reset, step and submit, and episodes per second when several are played at once.

Figures are CPU seconds of all processes, including the container runtime and the containers, because the machines that
run benchmarks are busy. Container shims are not counted; every method has one per container.
"""

from __future__ import annotations

import ctypes
import os
import resource
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pytest_mlebench import Bench
from pytest_mlebench.errors import SandboxError
from pytest_mlebench.extras.training.episode import Episode, agent_of_episodes
from pytest_mlebench.extras.training.observation import Observation
from pytest_mlebench.sandbox.docker.sandbox import DockerSandbox

TWIN, SEEDS = "spaceship-titanic", 4
ROUNDS, EPISODES = 12, 16
AT_ONCE = (1, 2, 4, 8)
LOOK = "head -3 $DATA_DIR/train.csv"
COPY_SAMPLE = "cat $DATA_DIR/sample_submission.csv > $SUBMISSION_DIR/submission.csv"
CHANGE = "sed -i 2s/False/True/ $SUBMISSION_DIR/submission.csv"
_ENGINE = ("dockerd", "containerd")
_CONTAINERS = Path("/sys/fs/cgroup/cpuacct/docker/cpuacct.usage"), Path("/sys/fs/cgroup/docker/cpu.stat")
_PR_SET_CHILD_SUBREAPER = 36
Rows = list[dict[str, Any]]


@pytest.fixture(scope="module", params=["local", pytest.param("docker", marks=pytest.mark.docker)])
def bench(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """A ``Bench`` whose twins have been generated."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    options: dict[str, Any] = (
        {"sandbox": "local"} if request.param == "local" else {"sandbox": "docker", "network": "none"}
    )
    made = Bench(data_dir=tmp_path_factory.mktemp("data"), **options)
    try:
        with made.episode(TWIN) as episode:
            for seed in range(SEEDS):
                episode.reset(seed)
                episode.step(COPY_SAMPLE)
                episode.submit()
    except SandboxError as error:
        pytest.skip(str(error))
    return made


def test_reset_step_and_submit(bench: Bench, figures: dict[str, Rows]) -> None:
    calls: dict[str, list[tuple[float, float]]] = {}

    def measured(what: str, call: Callable[[], object]) -> None:
        cpu, started = cpu_seconds(), time.monotonic()
        call()
        calls.setdefault(what, []).append((cpu_seconds() - cpu, time.monotonic() - started))

    with bench.episode(TWIN) as episode:
        for number in range(ROUNDS):
            measured("reset", lambda seed=number % SEEDS: episode.reset(seed))  # type: ignore[misc]
            measured("step: true", lambda: episode.step("true"))
            measured("step: the first submission", lambda: episode.step(COPY_SAMPLE))
            measured("step: another submission", lambda: episode.step(CHANGE))
            measured("submit", episode.submit)
    figures["episodes"] += [
        {
            "what": f"{bench.settings.sandbox}, {what}",
            "cpu_ms": 1000 * statistics.mean(cpu for cpu, _ in times),
            "wall_ms": 1000 * statistics.median(wall for _, wall in times),
        }
        for what, times in calls.items()
    ]


def test_many_at_once(bench: Bench, figures: dict[str, Rows]) -> None:
    def policy(episode: Episode, observation: Observation) -> None:
        for command in (LOOK, COPY_SAMPLE, CHANGE):
            assert episode.step(command).exit_code == 0

    def play(parallel: int) -> None:
        jobs = ((TWIN, number % SEEDS) for number in range(EPISODES))
        played = list(bench.play(policy, jobs, parallel=parallel))
        assert len(played) == EPISODES and not [own.error for own in played if own.error]

    sandbox = bench.settings.sandbox
    play(max(AT_ONCE))  # so that each grading process has imported pandas
    ways = {f"{sandbox}, episodes": play}
    if sandbox == "docker":
        image = DockerSandbox(network="none").images.agent(agent_of_episodes())
        ways["docker exec, not checked or graded"] = lambda parallel: _plain(bench, image, parallel)
    for parallel in AT_ONCE:
        for what, way in ways.items():
            cpu, started = cpu_seconds(), time.monotonic()
            way(parallel)
            cpu, wall = cpu_seconds() - cpu, time.monotonic() - started
            figures["episodes at once"].append(
                {"what": what, "parallel": parallel, "each_cpu": EPISODES / cpu, "each_wall": EPISODES / wall}
            )


def _plain(bench: Bench, image: str, parallel: int) -> None:
    """Run the same commands and copy the submission from the container, with one container per round."""
    store = bench.with_settings(data="twin:0:micro", twin_per_seed=True).store_of(0)
    public = store.prepare(bench.catalogue[TWIN]).public

    def one(number: int) -> None:
        def docker(*arguments: str) -> str:
            return subprocess.run(["docker", *arguments], check=True, capture_output=True, text=True).stdout.strip()

        mounted = f"--volume={public}:/home/data:ro"
        name = docker("run", "-d", "--network=none", mounted, "--entrypoint=/bin/sleep", image, "600")
        for command in (LOOK, COPY_SAMPLE, CHANGE):
            variables = "DATA_DIR=/home/data; SUBMISSION_DIR=/home/submission"
            docker("exec", name, "bash", "-c", f"{variables}; {command}")
        docker("cp", f"{name}:/home/submission/submission.csv", "-")
        docker("rm", "-f", name)

    with ThreadPoolExecutor(parallel) as threads:
        list(threads.map(one, range(EPISODES)))


def cpu_seconds() -> float:
    """CPU seconds of this process, its descendants, the container runtime and all containers."""
    parents: dict[int, int] = {}
    ended, names = {}, {}
    for folder in Path("/proc").iterdir():
        with suppress(OSError):
            if folder.name.isdigit():
                name, _, rest = (folder / "stat").read_text().rpartition(")")
                fields, pid = rest.split(), int(folder.name)
                parents[pid], names[pid] = int(fields[1]), name.partition("(")[2]
                ended[pid] = (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")  # children that were reaped
    own = resource.getrusage(resource.RUSAGE_CHILDREN)
    total = own.ru_utime + own.ru_stime + time.process_time()
    for pid in {*_below(os.getpid(), parents), *(pid for pid, name in names.items() if name in _ENGINE)}:
        with suppress(OSError):
            total += ended[pid] + time.clock_gettime((~pid << 3) | 2)  # the clock of a process: clock_getcpuclockid(3)
    for path in _CONTAINERS:
        if path.exists():
            text = path.read_text().split()
            total += int(text[0]) / 1e9 if len(text) == 1 else int(text[1]) / 1e6
    return total


def _below(pid: int, parents: dict[int, int]) -> Iterator[int]:
    for child in [child for child, parent in parents.items() if parent == pid]:
        yield child
        yield from _below(child, parents)
