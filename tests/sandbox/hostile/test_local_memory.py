"""Memory that a trusted agent uses by mistake: the local sandbox does not isolate, but limits memory in every form."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_mlebench.sandbox import Ending, contract
from tests.sandbox.scripted import MB, Runner, local_sandbox, make_runner, python

pytestmark = [pytest.mark.full, pytest.mark.serial]

EAT = """
import mmap, os, signal, sys
def eat():
    block = mmap.mmap(-1, {each} << 20, flags={flags})
    for at in range(0, len(block), 4096): block[at] = 1
    print("ate", flush=True)
    signal.pause()
for _ in range({processes}):
    if os.fork() == 0: eat()
for _ in range({processes}):
    if os.wait()[1]: sys.exit(1)
"""
FORMS = {
    "shared memory": EAT.format(each=400, processes=1, flags="mmap.MAP_SHARED | mmap.MAP_ANONYMOUS"),
    "many processes": EAT.format(each=100, processes=8, flags="mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS"),
}
SHARED = """
import mmap, os, time
block = mmap.mmap(-1, 150 << 20)
def touch():
    for at in range(0, len(block), 4096): block[at] += 1
touch()
for _ in range(4):
    if os.fork() == 0:
        touch(); time.sleep(0.5); os._exit(0)
for _ in range(4): assert os.wait()[1] == 0
print("fits")
"""


@pytest.fixture(params=["kernel", "supervisor"])
def run(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runner:
    """Limits enforced by the kernel, or by the supervisor if it cannot create a control group."""
    if request.param == "supervisor":
        monkeypatch.setattr(contract, "MEMORY_GROUP", "no/such/folder/")
    elif os.geteuid() != 0:
        pytest.skip("only root can create control groups")
    return make_runner(local_sandbox(), tmp_path)


@pytest.mark.parametrize("form", FORMS)
def test_an_agent_wants_more_memory_as(form: str, run: Runner) -> None:
    result = run(python(FORMS[form]), memory=256 * MB, time_limit=60)
    assert result.execution.ending == Ending.OUT_OF_MEMORY
    assert result.log.split().count("ate") <= 4  # a process that the kernel kills makes room for another


def test_memory_that_processes_share_counts_once(run: Runner) -> None:
    result = run(python(SHARED), memory=256 * MB, time_limit=60)
    assert (result.execution.ending, result.log.split()) == (Ending.FINISHED, ["fits"])


def test_no_control_group_is_left(run: Runner) -> None:
    run("true", memory=256 * MB)
    mine = f"mlebench-memory-*-{os.getpid()}-*"
    assert not [*Path("/sys/fs/cgroup").glob(mine), *Path("/sys/fs/cgroup/memory").glob(mine)]
