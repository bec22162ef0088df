"""No exporter reveals a secret of this environment, wherever a record or a recording contains it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from pytest_mlebench.extras.interop.contract import EXPORTERS
from pytest_mlebench.io.extensions import extensions
from tests.interop.collector import collecting
from tests.interop.recorded import recorded_group
from tests.left import leave

SECRET = "sk-of-a-test-0123456789abcdef"
QUOTED = 'sk "of" a \\test-ü'
"""JSON spells it differently."""
FILES = {
    "atif": (),
    "eee": (),
    "inspect": (),
    "mle-bench": (),
    "wandb": ("--offline",),
}
"""Options with which an exporter writes files."""


def leaking_group(folder: Path, secret: str = SECRET) -> None:
    """A group whose only run contains the secret wherever an agent or a provider can put it."""
    for record in recorded_group(folder, runs=1, said=f"key {secret}"):
        run_dir = folder / record.run_id
        (run_dir / "run.log").write_text(f"export OPENAI_API_KEY={secret}\n")
        (run_dir / "submission/submission.csv").write_text(f"id,target\n1,{secret}\n")
        leave(run_dir, {"logs/agent.log": f"key {secret}", "code/run.sh": f"KEY={secret}"})
        models = {f"{secret}/{name}": own for name, own in record.llm["models"].items()}
        replace(
            record,
            detail=f"it printed {secret}",
            versions={"agent": secret},
            llm={**record.llm, "models": models},
            report=replace(record.report, error=f"column {secret}"),
        ).write(run_dir)


def run_export(*words: str | Path, secret: str = SECRET) -> None:
    command = [sys.executable, "-m", "pytest_mlebench.cli", "export", *map(str, words)]
    environment = os.environ | {"OPENAI_API_KEY": secret}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert secret not in done.stdout + done.stderr


def test_each_exporter_is_tested() -> None:
    # test_mlflow.py searches the data that MLflow's server stores. Harbor's tasks contain no runs.
    own = {name for name, found in extensions(EXPORTERS).items() if "pytest_mlebench." in found.value}
    assert own == FILES.keys() | {"otlp", "mlflow", "harbor"}


@pytest.mark.full
@pytest.mark.parametrize("secret", [SECRET, QUOTED], ids=["plain", "quoted"])
@pytest.mark.parametrize("to", sorted(FILES))
def test_written_files_contain_no_secret(to: str, secret: str, tmp_path: Path) -> None:
    if to == "wandb" and find_spec("wandb") is None:
        pytest.skip("needs the extra wandb")
    leaking_group(tmp_path / "runs/leaking", secret)
    run_export(f"--to={to}", *FILES[to], "-o", tmp_path / "out", tmp_path / "runs/leaking", secret=secret)
    written = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert written
    forms = {text.encode() for text in (secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1])}
    assert not [path for path in written if secret in path.name or any(form in path.read_bytes() for form in forms)]


@pytest.mark.full
def test_sent_traces_contain_no_secret(tmp_path: Path) -> None:
    leaking_group(tmp_path / "runs/leaking")
    with collecting() as collector:
        run_export("--to=otlp", f"--endpoint={collector.url}", "--otlp-content", tmp_path / "runs/leaking")
    assert b"key ***" in b"".join(collector.requests)
    assert SECRET.encode() not in b"".join(collector.requests)
