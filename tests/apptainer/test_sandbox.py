"""What is specific to Apptainer: images, folders, and cleanup after a session is killed.

``.ci/apptainer ROOT pytest --full tests/apptainer tests/sandbox`` runs this with Apptainer.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from pytest_mlebench import Bench, Ending, Event, SandboxError, Step
from pytest_mlebench.agents import Agent
from pytest_mlebench.extras.apptainer.images import SifImages
from pytest_mlebench.sandbox.contract import SOCKETS, clean_folders
from pytest_mlebench.sandbox.limits import delegated
from tests.extent import ALL
from tests.sandbox.scripted import AGENTS, ENGINE, MB, Runner, docker_sandbox, make_runner, script_agent

pytestmark = [
    pytest.mark.docker,
    pytest.mark.serial,
    pytest.mark.skipif(ENGINE != "apptainer", reason="MLEBENCH_TEST_ENGINE=apptainer runs it"),
]
ROOT = Path(__file__).parents[2]


@pytest.fixture
def run(tmp_path: Path) -> Runner:
    return make_runner(docker_sandbox(), tmp_path)


def folders() -> set[str]:
    return {path.name for path in Path(tempfile.gettempdir()).glob(f"{SOCKETS}*")}


def groups() -> set[str]:
    """Control groups of containers. systemd removes those that have ended."""
    user = Path(f"/sys/fs/cgroup/user.slice/user-{os.getuid()}.slice/user@{os.getuid()}.service")
    return {path.name for path in user.glob("**/apptainer-*.scope")}


@pytest.mark.parametrize("name", ["a:b", "a,b", "a b", "a\\:b", "ä'\"", "x" * 200])
def test_the_data_folder_can_have_any_name(name: str, run: Runner, tmp_path: Path) -> None:
    folder = tmp_path / name / "public"
    folder.mkdir(parents=True)
    (folder / "here.csv").write_text("found\n")
    run.public = folder
    assert run("cat /home/data/here.csv").log == "found\n"


def test_nothing_in_a_container_names_the_competition_of_an_anonymous_run(run: Runner, tmp_path: Path) -> None:
    public = tmp_path / "secret-competition/public"
    public.mkdir(parents=True)
    (public / "here.csv").write_text("found\n")
    run.public = public
    task = replace(run.task("cat /proc/self/mountinfo /home/data/here.csv; env; ps ax; hostname"), anonymous=True)
    run.sandbox.run(task)
    log = (task.run_dir / "run.log").read_text()
    assert "found" in log and "secret-competition" not in log


def test_the_environment_contains_nothing_from_the_host(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APPTAINERENV_PLANTED", "planted")
    monkeypatch.setenv("SOME_KEY", "sk-of-the-host")
    log = run("env; cat /proc/*/environ 2>/dev/null; id -un; echo ~; cat /etc/passwd").log
    assert "planted" not in log and "sk-of-the-host" not in log
    assert "APPTAINER" not in log.partition("nonroot")[0]
    assert str(Path.home()) not in log and "/home/nonroot" in log


def test_a_run_leaves_no_folder_unless_it_is_kept(run: Runner) -> None:
    before = folders()
    assert not run("echo x > /home/x").execution.sandbox.kept
    assert folders() == before
    kept = Path(run("echo x > /home/x; echo y > $CODE_DIR/y", keep=True).execution.sandbox.kept)
    assert (kept / "overlay/upper/home/x").read_text() == "x\n" and (kept / "code/y").exists()


def test_with_full_network_access_each_run_has_its_own_ports(tmp_path: Path) -> None:
    run = make_runner(docker_sandbox(network="full"), tmp_path)
    tasks = [run.task('ls /sys/class/net; curl -s "$VALIDATION_URL/health"; sleep 2') for _ in range(2)]
    threads = [threading.Thread(target=run.sandbox.run, args=(task,)) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for task in tasks:
        assert '{"status": "running"}' in (task.run_dir / "run.log").read_text()


def test_runs_share_one_image_and_do_not_copy_it(run: Runner) -> None:
    count = 40 if ALL else 3
    before, go = folders(), run.public / "go"
    tasks = [
        run.task("echo ready; until [ -e /home/data/go ]; do sleep 0.2; done", time_limit=300) for _ in range(count)
    ]
    threads = [threading.Thread(target=run.sandbox.run, args=(task,)) for task in tasks]
    started = time.monotonic()
    for thread in threads:
        thread.start()
    logs = [task.run_dir / "run.log" for task in tasks]
    try:
        while not all(log.exists() and "ready" in log.read_text() for log in logs):
            assert time.monotonic() < started + 120
            time.sleep(0.1)
        ready = time.monotonic() - started
        written = [path.lstat() for name in folders() - before for path in Path(tempfile.gettempdir(), name).rglob("*")]
    finally:
        go.touch()
        for thread in threads:
            thread.join()
    images = run.sandbox.images  # type: ignore[attr-defined]
    size = images.built(script_agent())
    print(f"{count} runs were ready after {ready:.1f} s; they took {time.monotonic() - started:.1f} s in total")
    assert sum(about.st_blocks * 512 for about in written) < count << 20 < size


GREEDY = """
import os, signal, time
children = []
try:
    while True:
        children.append(os.fork())
        if not children[-1]:
            signal.pause()
except OSError:
    print(len(children), "children")
for child in children:
    os.kill(child, signal.SIGKILL)
    os.wait()
started = time.monotonic()
for _ in range(2):
    if not os.fork():
        while time.monotonic() < started + 5:
            pass
        os._exit(0)
used = sum(sum(os.wait3(0)[2][:2]) for _ in range(2))
print("share", used / (time.monotonic() - started))
"""


@pytest.mark.skipif(not delegated(), reason="needs a login session with control groups version 2")
def test_a_control_group_enforces_limits_and_is_removed_with_the_run(run: Runner) -> None:
    result = run(f"exec python3 -c '{GREEDY}'", cpus=0.5, processes=40)
    children, share = (
        float(line.split()[number]) for line, number in zip(result.log.splitlines(), (0, 1), strict=True)
    )
    assert 20 < children < 40 and share < 0.6
    killed = run("exec python3 -c 'bytearray(1 << 30)'", memory=200 * MB).execution
    assert (killed.ending, killed.signal) == (Ending.OUT_OF_MEMORY, "SIGKILL") and "killed for memory" in killed.detail
    assert "limit on memory enforced by a control group of the run" in killed.sandbox.notes
    assert not groups()


SESSION = """
import sys
from pathlib import Path
from tests.sandbox.scripted import docker_sandbox, make_runner
run = make_runner(docker_sandbox(), Path(sys.argv[1]))
run("echo ready; exec -a orphan-of-a-session sleep 600")
"""


def test_a_killed_session_leaves_no_process_and_the_next_one_removes_its_folder(run: Runner, tmp_path: Path) -> None:
    run("true")  # builds the image
    process = subprocess.Popen([sys.executable, "-c", SESSION, str(tmp_path / "other")], cwd=ROOT)
    log = tmp_path / "other/run-1/run.log"
    deadline = time.monotonic() + 180
    while not (log.exists() and "ready" in log.read_text()):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)
    family = psutil.Process(process.pid).children(recursive=True)
    assert any("orphan-of-a-session" in " ".join(own.cmdline()) for own in family)
    assert bool(groups()) is delegated()
    process.kill()
    process.wait()
    assert not psutil.wait_procs(family, timeout=30)[1]
    assert not groups()
    left = {name for name in folders() if f"-{process.pid}-" in name}
    assert left
    clean_folders()
    assert not left & folders()


def test_sigterm_to_all_processes_of_a_job_ends_a_run_cleanly(run: Runner, tmp_path: Path) -> None:
    """Slurm ends a job by sending SIGTERM to each process."""
    process = subprocess.Popen([sys.executable, "-c", SESSION, str(tmp_path / "other")], cwd=ROOT)
    log = tmp_path / "other/run-1/run.log"
    while not (log.exists() and "ready" in log.read_text()):
        assert process.poll() is None
        time.sleep(0.05)
    family = psutil.Process(process.pid).children(recursive=True)
    for own in [psutil.Process(process.pid), *family]:
        with suppress(psutil.NoSuchProcess):  # it has ended already
            own.send_signal(signal.SIGTERM)
    process.wait(60)
    assert not psutil.wait_procs(family, timeout=30)[1]
    assert not {name for name in folders() if f"-{process.pid}-" in name}


DOCKERFILE = r"""
FROM mlebench-env
ARG VERSION=1
ARG GIVEN
ENV GREETING="it's $VERSION" \
    OTHER=plain
COPY . ${AGENT_DIR}
COPY --chmod=755 tool*.sh /opt/tools/
COPY one.txt /opt/renamed.txt
RUN echo "${GREETING}" \
    # a comment between two lines
    && echo built > /opt/built
RUN ["/bin/sh", "-c", "echo exec > /opt/exec"]
USER nonroot
RUN id -un > /tmp/who && cp /tmp/who /home/nonroot/who
USER root
SHELL ["/bin/bash", "-c"]
RUN [[ -n "$BASH" ]] && echo bash > /opt/bash
WORKDIR /home/agent
WORKDIR inner
"""


def agent_of(folder: Path, dockerfile: str) -> Agent:
    folder.mkdir()
    for name, text in {
        "Dockerfile": dockerfile,
        "one.txt": "one",
        "tool-a.sh": "echo a",
        "start.sh": (AGENTS / "script/start.sh").read_text(),
        "config.yaml": "own:\n  start: own/start.sh\n",
    }.items():
        (folder / name).write_text(text)
    return script_agent(folder=folder, dockerfile=folder / "Dockerfile", start=folder / "start.sh")


def test_a_dockerfile_builds_without_docker(run: Runner, tmp_path: Path) -> None:
    agent = agent_of(tmp_path / "own", DOCKERFILE)
    script = (
        'echo "$GREETING,$OTHER,$VERSION"; cat /opt/renamed.txt /opt/built /opt/exec /opt/bash /home/nonroot/who; '
        "/opt/tools/tool-a.sh; pwd; ls -d /home/agent/one.txt"
    )
    log = run(script, agent=agent).log
    assert log.split("\n")[:-1] == [
        "it's 1,plain,",
        "onebuilt",
        "exec",
        "bash",
        "nonroot",
        "a",
        "/home/agent/inner",
        "/home/agent/one.txt",
    ]


def test_a_failed_build_reports_the_line_and_leaves_no_file(run: Runner, tmp_path: Path) -> None:
    agent = agent_of(tmp_path / "own", "FROM mlebench-env\nRUN true\nRUN echo told; exit 3\n")
    images = run.sandbox.images  # type: ignore[attr-defined]
    with pytest.raises(SandboxError, match=r"(?s)does not build.*line 3: RUN echo told.*told"):
        images.agent(agent)
    assert images.built(agent) is None
    assert not list(images.folder.glob(".*.part"))


def test_a_base_image_that_cannot_be_fetched_can_be_provided_as_a_file(tmp_path: Path) -> None:
    base = "registry.invalid/debian:1"
    images = SifImages(Bench(sandbox="apptainer", build_network="full", sif=tmp_path, base_image=base))
    with pytest.raises(SandboxError) as error:
        images.environment()
    assert str(error.value).endswith(f"put a SIF file of it there as {tmp_path}/registry.invalid-debian-1.sif")


def test_a_build_whose_network_cannot_be_limited_is_rejected(tmp_path: Path) -> None:
    agent = agent_of(tmp_path / "own", "FROM mlebench-env\nRUN true\n")
    images = SifImages(Bench(sandbox="apptainer", network="none", sif=os.environ["MLEBENCH_TEST_SIF"]))
    with pytest.raises(SandboxError, match="--build-network=full"):
        images.agent(agent)


def test_concurrent_requests_build_an_image_once(run: Runner, tmp_path: Path) -> None:
    agent = agent_of(tmp_path / "own", f"FROM mlebench-env\nRUN echo {os.getpid()} && sleep 1\n")
    events: list[Event] = []
    images = run.sandbox.images  # type: ignore[attr-defined]
    images._reporter = events.append
    threads = [threading.Thread(target=images.agent, args=(agent,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert images.built(agent)
    assert [event.activity for event in events if isinstance(event, Step)].count("building") == 1
