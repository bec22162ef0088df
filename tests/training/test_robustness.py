"""Episodes that crash in every way: none hangs, and none leaves anything behind.

``MLEBENCH_TEST_EPISODES`` is the number of episodes.
"""

from __future__ import annotations

import ctypes
import gc
import itertools
import os
import queue
import random
import signal
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from pytest_mlebench import Bench, SandboxError, UsageError
from pytest_mlebench.extras.training.channel import EpisodeOver
from pytest_mlebench.extras.training.episode import Episode
from pytest_mlebench.extras.training.observation import Observation
from pytest_mlebench.extras.training.pool import Played

pytestmark = [pytest.mark.full, pytest.mark.serial]
EPISODES = int(os.environ.get("MLEBENCH_TEST_EPISODES", "24"))
TWIN, SEEDS = "spaceship-titanic", 4
PARALLEL = 4
MOST_SECONDS = 180.0
"""Maximum time without the end of an episode, on a busy machine."""
MOST_MEGABYTES, MOST_OBJECTS = 24, 2000
LIBC, _M_ARENA_MAX, _M_MMAP_THRESHOLD = ctypes.CDLL(None), -8, -3
PIPES = 3
"""Open files per grading process; a few more of these may be started."""
COPY_SAMPLE = "cat $DATA_DIR/sample_submission.csv > $SUBMISSION_DIR/submission.csv"
TREE = "b() { [ $1 -gt 0 ] || sleep 1000; b $(($1 - 1)) & b $(($1 - 1)) & wait; }; b 6"
DAEMONS = (
    "for i in 1 2 3; do (setsid nohup sh -c 'while :; do sleep 0.1; (sleep 1000 &) ; done' >/dev/null 2>&1 &); done"
)
MEMORY = "python3 -c 'x = bytearray(1 << 30); print(sum(x[::4096]))'"
COMMANDS = (
    COPY_SAMPLE,
    "echo nonsense > $SUBMISSION_DIR/submission.csv",
    "rm -rf $SUBMISSION_DIR; ln -s /etc/passwd $SUBMISSION_DIR",
    "mkfifo $SUBMISSION_DIR/submission.csv",
    "mkdir $SUBMISSION_DIR/submission.csv",
    "rm -rf $CODE_DIR",
    "head -c 3000000 /dev/urandom",
    "exit 3",
    "kill -9 $$",
    "kill -9 $PPID; sleep 9",
    "kill -9 -1",
    "(sleep 0.05; kill -9 $PPID) & sleep 0.1",
    "yes > big.txt & sleep 0.1",
    TREE,
    DAEMONS,
    MEMORY,
)
LOCAL_ONLY = ("kill -9 $(cut -d' ' -f4 /proc/$PPID/stat); sleep 9",)
"""Kills the supervisor of a local sandbox."""
CONTAINED_ONLY = (":() { : | : & }; :",)
NOT_LOCAL = ("kill -9 -1",)
"""Commands that would end this test."""


ALLOWED = (ValueError, SandboxError, UsageError)
"""Errors of a policy with a bug, of a sandbox that crashed twice, and of a policy that closed its episode."""


class Chaos:
    """A policy with random actions that episodes must survive; ``done`` counts them."""

    def __init__(self, commands: tuple[str, ...]) -> None:
        self.commands = commands
        self.done: Counter[str] = Counter()

    def __call__(self, episode: Episode, observation: Observation) -> None:
        chosen = random.Random(self.done.total())
        for _ in range(chosen.randint(1, 4)):
            what = chosen.choice((*self.commands, "timeout", "files", "grading"))
            self.done[what] += 1
            with suppress(EpisodeOver, UsageError):
                if what == "timeout":
                    assert episode.step("sleep 1000", timeout=0.05).exit_code != 0
                elif what == "files":
                    episode.write_file("$SUBMISSION_DIR/submission.csv", bytes(chosen.randrange(1 << 20)))
                    episode.read_file("/dev/zero" if chosen.random() < 0.5 else "$SUBMISSION_DIR/submission.csv")
                elif what == "grading":
                    kill_a_grading_process(chosen)
                else:
                    episode.step(what, timeout=0.5)
        if chosen.random() < 0.2:
            raise ValueError("a policy with a mistake")
        if chosen.random() < 0.1:
            episode.close()


def kill_a_grading_process(chosen: random.Random) -> None:
    found = [pid for pid in descendants() if read(f"/proc/{pid}/comm") == b"grading.process\n"]
    if found:
        with suppress(ProcessLookupError):
            os.kill(chosen.choice(sorted(found)), signal.SIGKILL)


def read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


def descendants() -> set[int]:
    parents = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and (about := read(f"{folder}/stat").rpartition(b")")[2].split()):
            parents[int(folder.name)] = int(about[1])
    found = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {os.getpid()}


def one_by_one(played: Iterator[Played]) -> Iterator[Played]:
    """Yields finished episodes; fails if none ends for a long time."""
    ended: queue.Queue[Played | BaseException | None] = queue.Queue()

    def take() -> None:
        try:
            for own in played:
                ended.put(own)
            ended.put(None)
        except BaseException as error:
            ended.put(error)

    threading.Thread(target=take, daemon=True).start()
    while (own := ended.get(timeout=MOST_SECONDS)) is not None:
        if isinstance(own, BaseException):
            raise own
        yield own


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of all temporary files. Processes with its name in their environment are ours."""
    with tempfile.TemporaryDirectory(prefix="e-", dir="/tmp") as folder:  # socket paths must be short
        with suppress(AttributeError):  # return freed memory to the system, so that growth means a leak
            LIBC.mallopt(_M_ARENA_MAX, 1)
            LIBC.mallopt(_M_MMAP_THRESHOLD, 1 << 17)
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


def check(bench: Bench, chaos: Chaos, episodes: int, place: Path) -> None:
    """Play episodes, and check that nothing hangs, grows or is left behind."""
    jobs = ((TWIN, number % SEEDS) for number in range(episodes))
    errors = Counter[str]()
    used = []
    for count in (max(8, episodes // 4), episodes):
        some = itertools.islice(jobs, count)
        for played in one_by_one(bench.play(chaos, some, parallel=PARALLEL, replacements=1, answer_timeout=2)):
            assert played.error is None or isinstance(played.error, ALLOWED), repr(played.error)
            errors[type(played.error).__name__] += 1
            if errors.total() % 100 == 0:
                print(f"{errors.total()} episodes: {memory()}", flush=True)
        gc.collect()
        with suppress(AttributeError):
            LIBC.malloc_trim(0)
        used.append((memory()["RssAnon"], len(gc.get_objects()), len(os.listdir("/proc/self/fd"))))  # noqa: PTH208
    assert errors.total() == episodes and errors["NoneType"] > episodes / 4
    deadline = time.monotonic() + 20
    while left(place) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert left(place) == []
    assert list(Path("/sys/fs/cgroup").glob(f"**/mlebench-memory-*-{os.getpid()}-*")) == []
    assert [thread.name for thread in threading.enumerate() if "ThreadPool" in thread.name] == []
    (before, objects_before, files_before), (after, objects_after, files_after) = used
    grown, more = after - before, objects_after - objects_before
    print(f"{episodes} episodes: {dict(errors)}, {grown:+.1f} MB, {more:+} objects; {chaos.done}")
    assert grown < MOST_MEGABYTES and more < MOST_OBJECTS and files_after <= files_before + PIPES * PARALLEL


def memory() -> dict[str, float]:
    """Memory of this process in MB: anonymous, and of mapped files such as libraries."""
    lines = read("/proc/self/status").decode().splitlines()
    return {
        name: int(value.split()[0]) * 1024 / 1e6
        for name, _, value in (line.partition(":") for line in lines)
        if name in ("RssAnon", "RssFile")
    }


def left(place: Path) -> list[str]:
    """Files in the folder, and command lines of processes whose environment names it."""
    found = [str(path) for path in place.iterdir() if not path.name.startswith("mlebench-build-")]  # build lock
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and os.fsencode(place) in read(f"{folder}/environ"):
            found.append(read(f"{folder}/cmdline").decode("utf-8", "replace"))
    return found


def test_no_episode_hangs_and_nothing_is_left(place: Path, tmp_path: Path) -> None:
    bench = Bench(sandbox="local", data_dir=tmp_path, memory=512 << 20, disk=64 << 20)
    check(
        bench, Chaos(tuple(command for command in COMMANDS if command not in NOT_LOCAL) + LOCAL_ONLY), EPISODES, place
    )


@pytest.mark.docker
def test_in_containers_no_episode_hangs_and_nothing_is_left(place: Path, tmp_path: Path) -> None:
    bench = Bench(sandbox="docker", network="none", data_dir=tmp_path, memory=512 << 20, disk=64 << 20)
    check(bench, Chaos(COMMANDS + CONTAINED_ONLY), EPISODES, place)
    mine = ["docker", "ps", "-aq", "--filter", f"label=mlebench.pid={os.getpid()}"]
    assert subprocess.run(mine, check=True, capture_output=True, text=True).stdout == ""
