"""Runs that hide the name of the competition from the agent."""

from __future__ import annotations

import json
import re
import stat
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pytest_mlebench.agents import Agent
from pytest_mlebench.agents.registry import read_config
from pytest_mlebench.catalog import Competition, default_catalogue
from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.data.store import DataStore
from pytest_mlebench.errors import CompetitionError, SandboxError
from pytest_mlebench.records.record import RunRecord
from pytest_mlebench.runs.run import RunOptions, obfuscated_data, run_agent
from pytest_mlebench.sandbox import Ending, Limits, Sandbox
from tests.sandbox.conftest import require_docker
from tests.sandbox.scripted import AGENTS, docker_sandbox, local_sandbox

ID = "aerial-cactus-identification"
OWN = """
env
hostname
cat "$INSTRUCTIONS" "$DATA_DIR/description.md"
bash "$(dirname "$INSTRUCTIONS")/prompt.sh"
find "$HOME/.." "$DATA_DIR" -ls
cp "$DATA_DIR/sample_submission.csv" "$SUBMISSION_DIR/submission.csv"
bash "$(dirname "$INSTRUCTIONS")/validate_submission.sh" "$SUBMISSION_DIR/submission.csv"
echo id,nonsense >nonsense.csv
bash "$(dirname "$INSTRUCTIONS")/validate_submission.sh" nonsense.csv
echo private >"$DATA_DIR/description.md" 2>/dev/null && echo WRITTEN
true
"""
"""Prints everything that an agent was given."""
AROUND = """
for file in /proc/[0-9]*/cmdline /proc/[0-9]*/environ; do tr '\\0' ' ' <$file; echo; done 2>/dev/null
cat /proc/self/mountinfo /proc/self/mounts /proc/self/cgroup /etc/hosts /etc/hostname /etc/resolv.conf
find / -xdev -not -path '/proc/*' -not -path '/sys/*' 2>/dev/null
half=aer; grep -rIl ${half}ial /home /tmp /var /run /opt /etc /root 2>/dev/null
true
"""
"""Searches the rest of the system for the competition's name."""


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    return DataStore(tmp_path / "data").prepare(default_catalogue()[ID], synthetic=1)


def look_around(
    sandbox: Sandbox, dataset: Dataset, group: Path, script: str, *, obfuscated: bool = True
) -> tuple[RunRecord, str]:
    """Run a script as an agent; return the record and the log."""
    (agent,) = read_config(AGENTS / "script/config.yaml")
    looking: Agent = replace(agent, kwargs={"script": script})
    options = RunOptions(folder=group, obfuscated=obfuscated, limits=Limits(time_limit=120))
    record = run_agent(looking, dataset.competition, dataset, sandbox, options)
    return record, (group / record.run_id / "run.log").read_text(errors="replace")


def named(log: str) -> list[str]:
    """Log lines that name the competition. Names of columns and data files do not count."""
    return [line for line in log.splitlines() if re.search("aerial|cactus.?ident", line, re.IGNORECASE)]


def test_a_trusted_agent_finds_no_name_of_the_competition(dataset: Dataset, tmp_path: Path) -> None:
    record, log = look_around(local_sandbox(), dataset, tmp_path / "group", OWN)
    assert record.ending == Ending.FINISHED, log
    assert named(log) == []
    assert "COMPETITION_ID=competition\n" in log
    assert dataset.competition.obfuscated_description.read_text() in log
    assert "Submission is valid." in log and "Submission invalid!" in log and "WRITTEN" not in log
    assert record.report.valid_submission, "its submission is graded as usual"
    assert record.description == "obfuscated"
    assert any("does not look around" in note for note in record.sandbox.notes)


def test_without_obfuscation_the_name_is_visible(dataset: Dataset, tmp_path: Path) -> None:
    record, log = look_around(local_sandbox(), dataset, tmp_path / "group", OWN, obfuscated=False)
    assert any(line == f"COMPETITION_ID={ID}" for line in named(log))
    assert record.description == "bundled"


@pytest.mark.docker
@pytest.mark.parametrize("network", ["none", "full"])
def test_nothing_in_a_container_names_the_competition(dataset: Dataset, tmp_path: Path, network: str) -> None:
    require_docker()
    names = "getent hosts $(hostname -i) || true\n"  # an engine's DNS server resolves container names
    sandbox = docker_sandbox(network=network)
    record, log = look_around(sandbox, dataset, tmp_path / "group", OWN + AROUND + names)
    assert record.ending == Ending.FINISHED, log
    assert named(log) == []
    assert "/home/data" in log and "cmdline" not in named(log)
    assert ID not in record.sandbox.container and record.report.valid_submission
    if network == "none":
        _, plain = look_around(sandbox, dataset, tmp_path / "plain", AROUND, obfuscated=False)
        assert any("/home/data" in line for line in named(plain)), "the path of a mount is readable in a container"


def test_the_data_is_unchanged(dataset: Dataset, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in dataset.prepared.rglob("*") if path.is_file()}
    look_around(local_sandbox(), dataset, tmp_path / "group", "true")
    assert {path: path.read_bytes() for path in dataset.prepared.rglob("*") if path.is_file()} == before
    assert dataset.description == "bundled"
    assert not list(dataset.folder.parent.glob(".shown-*"))


def test_a_competition_without_an_obfuscated_description_is_not_run(tmp_path: Path) -> None:
    toy = Competition.load(Path(__file__).parents[1] / "toys/competitions/toy-parity/competition.yaml")
    without = DataStore(tmp_path / "data").prepare(toy)
    with pytest.raises(CompetitionError, match="toy-parity has no obfuscated description: write "):
        look_around(local_sandbox(), without, tmp_path / "group", "true")
    assert not (tmp_path / "group").exists()


def test_the_record_names_the_kind_of_description(dataset: Dataset, tmp_path: Path) -> None:
    record, _ = look_around(local_sandbox(), dataset, tmp_path / "group", "true")
    assert json.loads((tmp_path / "group" / record.run_id / "run.json").read_text())["description"] == "obfuscated"


def test_the_obfuscated_data_is_a_readable_copy_removed_after_the_run(tmp_path: Path) -> None:
    public = tmp_path / "store/toy/public"
    (public / "deep").mkdir(parents=True)
    (public / "deep/a.csv").write_text("a")
    (public / "description.md").write_text("the competition's name")
    (tmp_path / "obfuscated.md").write_text("a competition")
    competition = SimpleNamespace(obfuscated_description=tmp_path / "obfuscated.md")
    shown = cast("Any", SimpleNamespace(competition=competition, folder=tmp_path / "store/toy", public=public))
    with obfuscated_data(shown, keep=False) as folder:
        assert folder.parent == tmp_path / "store"
        assert (folder / "description.md").read_text() == "a competition"
        assert (folder / "deep/a.csv").samefile(public / "deep/a.csv")
        assert {stat.S_IMODE(path.stat().st_mode) for path in (folder, folder / "deep")} == {0o755}
        assert folder.stat().st_mtime_ns == (folder / "description.md").stat().st_mtime_ns
        folder.rename(tmp_path / "taken away")
    with obfuscated_data(shown, keep=False) as folder:
        pass
    assert not folder.exists()
    with obfuscated_data(shown, keep=True) as folder:
        pass
    assert folder.exists() and folder.name.startswith(".kept-")
    nowhere = cast("Any", SimpleNamespace(competition=competition, folder=tmp_path / "none/toy", public=public))
    with pytest.raises(SandboxError, match="cannot be written, which --description=obfuscated needs"):
        obfuscated_data(nowhere, keep=False).__enter__()
    without = cast("Any", SimpleNamespace(competition=competition, folder=shown.folder, public=tmp_path / "none"))
    with pytest.raises(SandboxError, match="the public files cannot be linked below"):
        obfuscated_data(without, keep=False).__enter__()
    assert (public / "description.md").read_text() == "the competition's name"
