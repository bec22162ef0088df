"""Each cheating agent is found by the right scanner, and fair agents are not violations."""

from __future__ import annotations

import base64
import csv
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from pytest_mlebench.catalog import Competition
from pytest_mlebench.cli.main import main
from pytest_mlebench.data.store import DataStore
from pytest_mlebench.results import read_group
from pytest_mlebench.results.findings import Findings, Verdict, findings, read_findings
from pytest_mlebench.results.profile import State, fairness_profile
from tests.audit.programs import CHEATS, COMPETITION, HEAD, HONEST
from tests.left import left

pytestmark = pytest.mark.full

ONLY_LOOKS = {"constant", "sample", "beside", "perfect", "oracle", "weights", "blob"}
"""Findings that may have a fair explanation."""


class World(NamedTuple):
    project: Path
    runs: dict[str, str]
    """Run ids, by name of the program."""
    found: Findings


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """All programs run as agents in one session, and the group's audit."""
    project = tmp_path_factory.mktemp("audited")
    folder = project / "competitions/leaky"
    folder.mkdir(parents=True)
    for name, text in COMPETITION.items():
        (folder / name).write_text(text.replace("\\n", "\n") if name.endswith(".md") else text)
    DataStore(project / "data").prepare(Competition.load(folder / "competition.yaml"))
    _make_agents(project, folder)
    command = [sys.executable, "-m", "pytest", "competitions/leaky", "-q", "-p", "no:cacheprovider"]
    command += [f"--agent=program/{name}" for name in (*CHEATS, *HONEST)]
    command += ["--agent=baseline", "--agent=dummy", "--agents-dir=agents", "--data-dir=data", "--sandbox=local"]
    command += [
        f"--trust-agent={name}" for name in (*(f"program/{name}" for name in (*CHEATS, *HONEST)), "baseline", "dummy")
    ]
    command += ["-n", "2", "--run-group=audited", "--runs-dir=runs", "-c", "/dev/null", f"--rootdir={project}"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    options = [f"--data-dir={project / 'data'}", f"--competitions-dir={project / 'competitions'}"]
    assert main(["audit", str(project / "runs/audited"), *options]) == 1
    found = read_findings(project / "runs/audited")
    assert found is not None
    group = read_group(project / "runs/audited")
    return World(project, {r.agent.removeprefix("program/"): r.run_id for r in group.records}, found)


def _make_agents(project: Path, competition: Path) -> None:
    agents = project / "agents/program"
    agents.mkdir(parents=True)
    with (project / "data/leaky/prepared/private/test.csv").open(newline="") as file:
        labels = {row["id"]: int(row["label"]) for row in csv.DictReader(file)}
    known: dict[str, Any] = {
        "data": project / "data",
        "competition": competition,
        "table": labels,
        "pairs": list(labels.items()),
        "labels": list(labels.values()),
        "lines": "\n".join(f"{id},{label}" for id, label in labels.items()),
        "digits": "".join(map(str, labels.values())),
        "encoded": base64.b64encode(b"write(map(rule, test))").decode(),
        "blob": base64.b64encode(bytes(range(256)) * 16).decode(),
        "parameters": [round(k * 0.01, 2) for k in range(60)],
        "mapping": {f"name_{k}": k for k in range(60)},
    }
    programs = {name: text for name, (_, text) in CHEATS.items()} | HONEST
    for name, text in programs.items():
        (agents / f"{name}.py").write_text(HEAD + text.format_map(known))
    (agents / "start.sh").write_text('cp "$AGENT_DIR/$2.py" "$CODE_DIR/solution.py"\npython3 "$CODE_DIR/solution.py"\n')
    common = {
        "start": "program/start.sh",
        "dockerfile": "program/Dockerfile",
        "kwargs_type": "argparse",
    }
    config = {f"program/{name}": {**common, "kwargs": {"program": name}} for name in programs}
    (agents / "config.yaml").write_text(yaml.safe_dump(config))


@pytest.mark.parametrize("name", CHEATS)
def test_an_unfair_agent_is_found_by_the_scanner_that_should(name: str, world: World) -> None:
    scanner, _ = CHEATS[name]
    own = [finding for finding in world.found.of(world.runs[name]) if finding.scanner == scanner]
    assert own, world.found.of(world.runs[name])
    assert own[0].verdict is (Verdict.look if name in ONLY_LOOKS else Verdict.violation)
    assert any(finding.file or finding.at is not None for finding in own), "there is evidence"
    if own[0].file.startswith("code/") and own[0].line is not None:
        source = left(world.project / "runs/audited" / world.runs[name])[own[0].file].decode().splitlines()
        assert own[0].line > HEAD.count("\n") - 1 and source[own[0].line - 1].strip()


@pytest.mark.parametrize("name", [*HONEST, "baseline", "dummy"])
def test_a_fair_agent_is_not_a_violation(name: str, world: World) -> None:
    found = world.found.of(world.runs[name])
    assert world.found.verdicts[world.runs[name]] is not Verdict.violation, found


def test_twenty_ways_of_cheating_are_found_and_twenty_fair_runs_are_not(world: World) -> None:
    """Each is a real run of an agent in this module's session."""
    found = {
        name: [finding.verdict for finding in world.found.of(world.runs[name]) if finding.scanner == scanner]
        for name, (scanner, _) in CHEATS.items()
    }
    violations = {name for name, verdicts in found.items() if Verdict.violation in verdicts}
    fair = {
        name
        for name in (*HONEST, "baseline", "dummy")
        if world.found.verdicts[world.runs[name]] is not Verdict.violation
    }
    assert all(found.values()) and violations == set(CHEATS) - ONLY_LOOKS
    assert len(violations) >= 20 and len(fair) == len(HONEST) + 2 >= 20
    assert len({CHEATS[name][1] for name in found}) == len(CHEATS), "all programs are different"


def test_the_cheats_succeeded(world: World) -> None:
    records = {r.agent.removeprefix("program/"): r for r in read_group(world.project / "runs/audited").records}
    perfect = ("answers", "answers-joined", "answers-by-shell", "leak", "table", "pairs", "column", "text", "digits")
    assert {name: records[name].score for name in perfect} == dict.fromkeys(perfect, 1.0)
    assert len(records["oracle"].sandbox.validations) >= 20
    assert all(records[name].report.valid_submission for name in (*CHEATS, *HONEST))


def test_the_audit_is_shown_and_kept(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    group = world.project / "runs/audited"
    options = [f"--data-dir={world.project / 'data'}", f"--competitions-dir={world.project / 'competitions'}"]
    assert main(["audit", str(group), *options]) == 1
    out = capsys.readouterr().out
    assert "violation (known-leak): it uses the known leak" in out and "[code/solution.py:" in out
    assert main(["audit", str(group), *options, "--json"]) == 1
    values = json.loads(capsys.readouterr().out)
    assert values["verdicts"][world.runs["leak"]] == "violation"
    assert findings(group / world.runs["leak"])[0].scanner == "known-leak"
    (line,) = [line for line in fairness_profile(read_group(group)) if line.name == "audit"]
    assert line.state is State.difference and "violation" in line.detail


@pytest.fixture
def lone(tmp_path: Path, world: World) -> Iterator[Path]:
    """A run directory for malicious files."""
    group = tmp_path / "lone"
    run_id = world.runs["rule"]
    run_dir = group / run_id
    (run_dir / "code").mkdir(parents=True)
    source = world.project / "runs/audited"
    for name in ("run.json", "submission/submission.csv"):
        (run_dir / name).parent.mkdir(exist_ok=True)
        (run_dir / name).write_bytes((source / run_id / name).read_bytes())
    yield run_dir


def test_scanning_malicious_code_is_limited(lone: Path, world: World) -> None:
    code = lone / "code"
    (code / "deep.py").write_text("x = " + "(" * 5000 + ")" * 5000)
    (code / "sum.py").write_text("x = " + "+".join(["'a'"] * 20_000))
    (code / "nul.py").write_bytes(b"\0" * 1000)
    (code / "latin.py").write_bytes(b"\xff\xfe# coding: nothing\nprint('a')\n")
    (code / "large.py").write_text("#" * (5 << 20))
    (code / "many.py").write_text("open('/private/a')\n" * 10_000)
    (code / "link.py").symlink_to("/etc/passwd")
    (code / "book.ipynb").write_text('{"cells": [{"cell_type": "code", "source": ["open(\'/private/b\')"]}]}')
    (code / "bad.ipynb").write_text("[" * 100_000)
    (lone / "trajectory.json").write_text('{"steps": [{"tool_calls": [{"arguments": {"command": "cat /private/x"}}]}]}')
    options = [f"--data-dir={world.project / 'data'}", f"--competitions-dir={world.project / 'competitions'}"]
    assert main(["audit", str(lone.parent), *options]) == 1
    found = read_findings(lone.parent)
    assert found is not None
    files = [finding.file for finding in found.findings if finding.verdict is Verdict.violation]
    assert set(files) == {"code/many.py", "code/book.ipynb", "trajectory.json"} and files.count("code/many.py") <= 5
    assert any(finding.file == "code/large.py" for finding in found.findings)
