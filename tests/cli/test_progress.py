"""Progress reports of long commands."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from pytest_mlebench.io.files import bundled
from pytest_mlebench.io.processes import owned_prefix
from pytest_mlebench.sandbox.contract import SOCKETS
from tests.cli.test_cli import mlebench


@pytest.mark.full
def test_golden_reports_each_step_and_the_files_written(tmp_path: Path) -> None:
    folder = shutil.copytree(bundled("competitions") / "smoke-digits", tmp_path / "smoke-digits")
    done = mlebench("golden", folder)
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    assert lines[:2] == ["smoke-digits: generating synthetic data", "smoke-digits: preparing"]
    assert lines[-2].startswith("smoke-digits: grading ") and lines[-2].endswith(" submissions")
    assert lines[-1].startswith(f"{folder / 'golden.json'}: ")


@pytest.mark.docker
def test_clean_reports_what_it_removes() -> None:
    no_process = Path("/proc/sys/kernel/pid_max").read_text().strip()  # larger than any process id
    name = owned_prefix(SOCKETS).replace(f"-{os.getpid()}-", f"-{no_process}-")
    folder = Path(f"/tmp/{name}test")

    def is_said(line: str, *options: str, remains: bool) -> bool:
        for _ in range(3):  # sessions of other tests may remove it first
            folder.mkdir(exist_ok=True)
            if line in mlebench("clean", *options).stdout.splitlines() and folder.is_dir() is remains:
                return True
        return False

    try:
        assert is_said(f"would remove folder {folder}", "--dry-run", remains=True)
        assert is_said(f"removing folder {folder}", remains=False)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
