"""Messages for researchers whose agents are nearly correct."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_mlebench import (
    AgentError,
    DataStore,
    Limits,
    LocalSandbox,
    MLEBenchError,
    RunOptions,
    RunRecord,
    default_agents,
    default_catalogue,
    run_agent,
)
from pytest_mlebench.cli.main import main

SAMPLE = "$DATA_DIR/sample_submission.csv"
PLACE = "$SUBMISSION_DIR/submission.csv"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of an agent that `mlebench new-agent` created."""
    assert main(["new-agent", "mine", "--dir", str(tmp_path / "agents")]) == 0
    return tmp_path / "agents" / "mine"


def run(folder: Path, script: str) -> RunRecord:
    (folder / "start.sh").write_bytes(f"#!/bin/bash\n{script}\n".encode())
    competition = default_catalogue()["smoke-digits"]
    dataset = DataStore(folder.parents[1] / "data").prepare(competition)
    options = RunOptions(folder=folder.parents[1] / "group", limits=Limits(time_limit=60))
    return run_agent(default_agents(folder.parent)["mine"], competition, dataset, LocalSandbox(), options)


@pytest.mark.full
@pytest.mark.parametrize(
    ("script", "detail"),
    [
        (f"cp {SAMPLE} $SUBMISSION_DIR/sub.csv", "$SUBMISSION_DIR holds 'sub.csv'"),
        (f"gzip -c {SAMPLE} > {PLACE}.gz", "$SUBMISSION_DIR holds 'submission.csv.gz'"),
        (f"cp {SAMPLE} {PLACE}$'\\r'", "$SUBMISSION_DIR holds 'submission.csv%0D'"),
        (f"mkdir {PLACE}", "submission.csv is a folder"),
        (f"ln -s {SAMPLE} {PLACE}", "submission.csv was not collected: link"),
        (f"mkfifo {PLACE}", "submission.csv was not collected: not a regular file"),
        ("cd $SUBMISSION_DIR && touch 1 2 3 4 5", ", …"),
        ("echo '{}' > $SUBMISSION_DIR/validation.json", ""),
    ],
)
def test_a_run_without_a_submission_lists_the_files_it_left(folder: Path, script: str, detail: str) -> None:
    """The message once reported only that none existed, which hid a wrong name or line ending."""
    record = run(folder, script)
    assert not record.report.submission_exists
    assert record.detail.endswith(detail) and bool(record.detail) == bool(detail)


@pytest.mark.full
def test_a_compressed_submission_is_recognised(folder: Path) -> None:
    record = run(folder, f"gzip -c {SAMPLE} > {PLACE}")
    assert record.reason == "not a readable CSV file: it is gzip data"


@pytest.mark.full
def test_the_error_for_another_encoding_is_readable(folder: Path) -> None:
    record = run(folder, f"printf '\\xe4,id\\n1,2\\n' > {PLACE}")
    assert record.reason == "not a readable CSV file: it is not UTF-8 text (byte 1)"


@pytest.mark.full
def test_a_start_script_with_windows_line_endings_is_rejected(folder: Path) -> None:
    """It once ran without errors, and left a file named `submission.csv\\r`."""
    record = run(folder, f"cp {SAMPLE} {PLACE}")
    assert record.report.submission_exists
    start = folder / "start.sh"
    start.write_bytes(start.read_bytes().replace(b"\n", b"\r\n"))
    with pytest.raises(MLEBenchError, match=r"start\.sh has Windows line endings \(CR LF\).*sed -i"):
        LocalSandbox().check(default_agents(folder.parent)["mine"])


def test_a_folder_instead_of_the_start_script_is_rejected(folder: Path) -> None:
    (folder / "start.sh").unlink()
    (folder / "start.sh").mkdir()
    with pytest.raises(AgentError, match=r"start script .*start\.sh is a folder"):
        default_agents(folder.parent)["mine"]
