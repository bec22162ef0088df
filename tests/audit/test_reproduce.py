"""The code that an agent left, run again alone: in the local sandbox, and without a network in a container."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.cli.main import main
from pytest_mlebench.data.store import DataStore
from pytest_mlebench.grading.grader import Grader
from tests.groups import record_with, save_group

pytestmark = pytest.mark.full
COMPETITION = default_catalogue()["smoke-diabetes"]
SAMPLE = """\
import os, shutil

target = os.path.join(os.environ["SUBMISSION_DIR"], "submission.csv")
shutil.copyfile(os.path.join(os.environ["DATA_DIR"], "sample_submission.csv"), target)
"""
CHANGED = """
lines = open(target).read().splitlines()
rows = [line.rsplit(",", 1) for line in lines[1:]]
open(target, "w").write("\\n".join([lines[0], *(f"{id},{float(value) CHANGE}" for id, value in rows)]) + "\\n")
"""
ALONE = """
import socket

try:
    socket.create_connection(("1.1.1.1", 443), timeout=5).close()
except OSError:
    pass
else:
    raise SystemExit("there is a network")
assert not [name for name in os.environ if "API_KEY" in name or "BASE_URL" in name]
"""


@pytest.fixture
def run_dir(tmp_path: Path, data: Path) -> Path:
    """A run whose submission is the sample, without code yet."""
    dataset = DataStore(data).dataset(COMPETITION)
    (record,) = save_group(tmp_path / "runs/group", [record_with(COMPETITION, "gold", agent="a")])
    folder = tmp_path / "runs/group" / record.run_id
    submission = folder / "submission/submission.csv"
    submission.write_bytes(dataset.sample_submission.read_bytes())
    report = Grader(COMPETITION, dataset).report(submission)
    trusted = {"id": "a", "trusted": True}
    replace(record, report=report, agent_definition=trusted).write(folder)
    (folder / "code").mkdir()
    return folder


@pytest.mark.parametrize(
    ("files", "likeness"),
    [
        ({"solution.py": SAMPLE}, "equal"),
        ({"a.py": SAMPLE, "b.py": "", "reproduce.sh": "python3 a.py"}, "equal"),
        ({"solution.py": SAMPLE + CHANGED.replace("CHANGE", "+ 1e-4")}, "close"),
        ({"solution.py": SAMPLE + CHANGED.replace("CHANGE", "* 3")}, "different"),
        ({"solution.py": "raise SystemExit(3)"}, "does not run"),
    ],
)
def test_a_solution_that_is_run_again_is_compared(
    files: dict[str, str], likeness: str, run_dir: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in files.items():
        (run_dir / "code" / name).write_text(text)
    status = main(["reproduce", str(run_dir), f"--data-dir={data}", "--sandbox=local", "--json"])
    result = json.loads(capsys.readouterr().out)
    assert result["likeness"] == likeness and status == (0 if likeness in ("equal", "close") else 1)
    assert json.loads((run_dir / "reproduced.json").read_text()) == result
    assert (run_dir / "reproduced.log").exists() is (likeness == "does not run")


@pytest.mark.parametrize("programs", [[], ["a.py", "b.py"]])
def test_what_cannot_be_reproduced_is_said(
    programs: list[str], run_dir: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in programs:
        (run_dir / "code" / name).write_text(SAMPLE)
    assert main(["reproduce", str(run_dir), f"--data-dir={data}", "--sandbox=local"]) == 2
    assert "cannot be reproduced: it left " in capsys.readouterr().err


@pytest.mark.usefixtures("docker_engine")
def test_in_a_container_there_is_no_network_and_no_model(
    run_dir: Path, data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a key that stays outside")
    (run_dir / "code/solution.py").write_text("import os\n" + ALONE + SAMPLE)
    status = main(["reproduce", str(run_dir), f"--data-dir={data}", "--sandbox=docker", "--json"])
    result = json.loads(capsys.readouterr().out)
    assert (status, result["likeness"], result["network"]) == (0, "equal", "none")
