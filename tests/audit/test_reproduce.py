"""Rerunning the code that an agent left, in the local sandbox and in a container without a network."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_mlebench.agents.registry import Agent
from pytest_mlebench.catalog import Competition, default_catalogue
from pytest_mlebench.cli.main import main
from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.data.store import DataStore
from pytest_mlebench.errors import UsageError
from pytest_mlebench.extras.bundles.reproduce import as_agent
from pytest_mlebench.extras.bundles.run_notebook import _plain_lines
from pytest_mlebench.grading.grader import Grader
from pytest_mlebench.records.record import RunRecord
from pytest_mlebench.runs.run import run_agent
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


def notebook(*cells: str, language: str = "python") -> str:
    """A Jupyter notebook with these code cells."""
    text = [{"cell_type": "markdown", "source": "# How it was solved", "metadata": {}}]
    code = [{"cell_type": "code", "source": cell.splitlines(keepends=True), "metadata": {}} for cell in cells]
    about = {"kernelspec": {"language": language, "name": "any"}}
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": about, "cells": [*text, *code]})


BOOK_CELLS = (
    "%matplotlib inline\n!echo from the shell\nimport os, shutil",
    "%%writefile where.py\nimport os\nNAME = 'sample_submission.csv'\n",
    "%%time\nimport pickle\nfrom where import NAME\nclass Model:\n    pass\npickle.dumps(Model())",
    "display(NAME)\nNAME?",
    "found = !ls $DATA_DIR\nassert NAME in found, found",
    "source, target = (os.environ[f'{name}_DIR'] for name in ('DATA', 'SUBMISSION'))",
    "!cp {source}/{NAME} {target}/submission.csv",
)
BOOK = notebook(*BOOK_CELLS)
SHELL = 'cp "$DATA_DIR/sample_submission.csv" "$SUBMISSION_DIR/submission.csv"\n'
R = 'file.copy(file.path(Sys.getenv("DATA_DIR"), "sample_submission.csv"), \
file.path(Sys.getenv("SUBMISSION_DIR"), "submission.csv"))\n'


@pytest.fixture
def run_dir(tmp_path: Path, data: Path) -> Path:
    """A run that submitted the sample, without code so far."""
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
        ({"book.ipynb": BOOK}, "equal"),
        ({"book.ipynb": notebook("x = 1", "raise ValueError(x)")}, "does not run"),
        ({"book.ipynb": '{"cells": 3}'}, "does not run"),
        ({"reproduce.sh": SHELL}, "equal"),
        ({"main.sh": SHELL, "lib/tools.py": "raise SystemExit(3)", "lib/more.py": ""}, "equal"),
        ({"source/solution.py": SAMPLE}, "equal"),
    ],
)
def test_the_result_of_a_rerun_is_compared(
    files: dict[str, str], likeness: str, run_dir: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in files.items():
        (run_dir / "code" / name).parent.mkdir(exist_ok=True)
        (run_dir / "code" / name).write_text(text)
    status = main(["reproduce", str(run_dir), f"--data-dir={data}", "--sandbox=local", "--json"])
    result = json.loads(capsys.readouterr().out)
    assert result["likeness"] == likeness and status == (0 if likeness in ("equal", "close") else 1)
    assert json.loads((run_dir / "reproduced.json").read_text()) == result
    assert (run_dir / "reproduced.log").exists() is (likeness == "does not run")


@pytest.mark.parametrize("hidden", ["IPython.core.interactiveshell", "nothing"])
def test_a_notebook_is_run_with_ipython_and_without(hidden: str, tmp_path: Path) -> None:
    if hidden == "nothing":
        pytest.importorskip("IPython")
    for name in ("data", "submission"):
        (tmp_path / name).mkdir()
    (tmp_path / "data/sample_submission.csv").write_text("a file")
    (tmp_path / "book.ipynb").write_text(BOOK)
    program = (
        "import sys; from pytest_mlebench.extras.bundles.run_notebook import run; "
        "sys.modules[sys.argv[1]] = None; run('book.ipynb')"
    )
    variables = {"DATA_DIR": f"{tmp_path}/data", "SUBMISSION_DIR": f"{tmp_path}/submission", "HOME": str(tmp_path)}

    def ran() -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", program, hidden]
        return subprocess.run(command, cwd=tmp_path, env={**os.environ, **variables}, capture_output=True, text=True)

    done = ran()
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "submission/submission.csv").read_text() == "a file"
    (tmp_path / "book.ipynb").write_text(notebook("x = 1", "raise ValueError(x)", "open('later', 'w')"))
    done = ran()
    assert done.returncode == 1 and "ValueError: 1" in done.stdout + done.stderr
    assert "\x1b" not in done.stdout + done.stderr and not (tmp_path / "later").exists()


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("%matplotlib inline", "pass"),
        ("  %env KEY=a b", "  __import__('os').environ['KEY'] = 'a b'"),
        ("%env KEY a=b", "__import__('os').environ['KEY'] = 'a=b'"),
        ("%set_env KEY = a", "__import__('os').environ['KEY'] = 'a'"),
        ("%env KEY", "pass"),
        *((f"%{name} x", None) for name in ("R", "sql", "bash", "run", "timeit", "unknown")),
    ],
)
def test_a_magic_works_has_no_effect_or_is_an_error(line: str, code: str | None) -> None:
    if code is not None:
        assert list(_plain_lines(line, 7)) == [code]
    else:
        with pytest.raises(SystemExit, match=r"^cell 7: %\w+ needs IPython, which is not installed here$"):
            list(_plain_lines(line, 7))


@pytest.mark.parametrize("programs", [[], ["a.py", "b.py"]])
def test_reasons_why_a_run_cannot_be_reproduced_are_shown(
    programs: list[str], run_dir: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in programs:
        (run_dir / "code" / name).write_text(SAMPLE)
    assert main(["reproduce", str(run_dir), f"--data-dir={data}", "--sandbox=local"]) == 2
    assert "cannot be reproduced: it left " in capsys.readouterr().err


def test_one_of_several_programs_can_be_chosen(run_dir: Path, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("first.py", "second.ipynb"):
        (run_dir / "code" / name).write_text("raise SystemExit(3)")
    (run_dir / "code/third one.py").write_text(SAMPLE)
    command = ["reproduce", str(run_dir), f"--data-dir={data}", "--sandbox=local"]
    assert main(command) == 2
    error = capsys.readouterr().err
    assert "3 programs and no reproduce.sh: choose one with --program: first.py, second.ipynb, third one.py" in error
    assert main([*command, "--program=fourth.py"]) == 2
    assert "--program: fourth.py is not among the programs in " in capsys.readouterr().err
    assert main([*command, "--program=third one.py", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["program"] == "third one.py"


def test_the_error_of_a_failed_program_is_its_last_line(
    run_dir: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (run_dir / "code/solution.py").write_text("raise ValueError('no such \\x1b[31m column')")
    assert main(["reproduce", str(run_dir), f"--data-dir={data}", "--sandbox=local"]) == 1
    out = capsys.readouterr().out
    assert "does not run: it left no submission (crashed; " in out and "\x1b" not in out and out.count("\n") == 1
    assert "ValueError: no such" in out


@pytest.mark.parametrize("name", ["solution.R", "book.ipynb"])
def test_r_programs_run_if_r_is_installed(
    name: str, run_dir: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (run_dir / "code" / name).write_text(R if name.endswith(".R") else notebook(R, language="R"))
    status = main(["reproduce", str(run_dir), f"--data-dir={data}", "--sandbox=local"])
    out = capsys.readouterr().out
    if shutil.which("Rscript"):
        assert status == 0 and ": equal: " in out
    else:
        assert status == 1 and out.rstrip().endswith("Rscript is not installed here)")


def test_data_other_than_the_runs_is_rejected(run_dir: Path, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run_dir / "code/solution.py").write_text(SAMPLE)
    values = json.loads((run_dir / "run.json").read_text())
    (run_dir / "run.json").write_text(json.dumps(values | {"data": {"answers": "0" * 32, "public": "0" * 32}}))
    assert main(["reproduce", str(run_dir), f"--data-dir={data}", "--sandbox=local"]) == 1
    assert "cannot be reproduced: the data of smoke-diabetes here is not the run's data" in capsys.readouterr().err
    assert main(["reproduce", str(run_dir), f"--data-dir={run_dir / 'none'}", "--sandbox=local"]) == 1
    assert "mlebench prepare -c smoke-diabetes" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("image", "is_one"),
    [
        ("ghcr.io:443/a/mlebench-env@sha256:0a", True),
        ("", True),
        ("mlebench-env\nRUN touch /evil", False),
        ("a AS b", False),
        ("--platform=x", False),
        ("${X}", False),
    ],
)
def test_a_record_adds_no_instructions_to_the_image(image: str, is_one: bool, run_dir: Path, tmp_path: Path) -> None:
    (run_dir / "code/solution.py").write_text(SAMPLE)
    record = RunRecord.read(run_dir)
    record = replace(record, sandbox=replace(record.sandbox, image=image))
    if is_one:
        agent = as_agent(record, run_dir, tmp_path, "solution.py")
        assert agent.dockerfile.read_text().splitlines()[0] == f"FROM {image or 'mlebench-env'}"
    else:
        with pytest.raises(UsageError, match="is not the name of an image"):
            as_agent(record, run_dir, tmp_path, "solution.py")


AS_SHOWN = """
assert "smoke-diabetes" not in open(os.path.join(os.environ["DATA_DIR"], "description.md")).read()
assert not [value for value in [*os.environ.values(), os.getcwd()] if "diabetes" in value], os.environ
assert os.environ["COMPETITION_ID"] == "competition"
"""


@pytest.mark.parametrize("sandbox", ["local", pytest.param("docker", marks=pytest.mark.docker)])
def test_a_rerun_uses_the_obfuscated_description_of_the_run(
    sandbox: str, run_dir: Path, data: Path, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    if sandbox == "docker":
        request.getfixturevalue("docker_engine")
    (run_dir / "code/book.ipynb").write_text(notebook(SAMPLE + AS_SHOWN, *BOOK_CELLS))
    values = json.loads((run_dir / "run.json").read_text())
    (run_dir / "run.json").write_text(json.dumps(values | {"description": "obfuscated"}))
    status = main(["reproduce", str(run_dir), f"--data-dir={data}", f"--sandbox={sandbox}", "--json"])
    result = json.loads(capsys.readouterr().out)
    assert (status, result["likeness"], result["description"]) == (0, "equal", "obfuscated"), result
    assert not list(data.glob(".shown-*")), "it left nothing in the data folder"


@pytest.mark.docker
@pytest.mark.usefixtures("docker_engine")
def test_a_rerun_in_a_container_has_no_network_and_no_models(
    run_dir: Path, data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a key that stays outside")
    networks: list[str] = []

    def noted(agent: Agent, competition: Competition, dataset: Dataset, sandbox: Any, *others: Any, **more: Any) -> Any:
        networks.append(sandbox.images.build_network_of(agent))
        return run_agent(agent, competition, dataset, sandbox, *others, **more)

    monkeypatch.setattr("pytest_mlebench.extras.bundles.commands.reproduce.run_agent", noted)
    (run_dir / "code/reproduce.sh").write_text("set -e\npython3 parts/alone.py\n" + SHELL)
    (run_dir / "code/parts").mkdir()
    (run_dir / "code/parts/alone.py").write_text("import os\n" + ALONE)
    status = main(["reproduce", str(run_dir), f"--data-dir={data}", "--sandbox=docker", "--json"])
    result = json.loads(capsys.readouterr().out)
    assert (status, result["likeness"], result["network"], networks) == (0, "equal", "none", ["none"])
