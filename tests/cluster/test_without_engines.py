"""A machine without Slurm."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_mlebench.errors import ClusterError
from pytest_mlebench.extras.engines.contract import Job, Resources
from pytest_mlebench.extras.engines.slurm import SlurmEngine


def test_the_error_outside_the_cluster_says_where_to_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ClusterError, match=r"^sinfo was not found: .*; start pytest where `sinfo` works"):
        SlurmEngine().check()


def test_a_batch_script_starts_an_interpreter_whose_path_has_special_characters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Uses a fake ``sbatch`` that executes the script at once."""
    arguments = ["a b", "}$HOME'"]
    for name in ("a}b", "$HOME 'c'", "own"):
        python = tmp_path / name / "python"
        python.parent.mkdir()
        python.write_text('#!/bin/sh\nprintf "%s\\n" "$0" "$@"\n')
        python.chmod(0o755)
        (tmp_path / "sbatch").write_text('#!/bin/bash\nbash "${@: -1}"\n')
        (tmp_path / "sbatch").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        command = [str(python), *arguments]
        if name == "own":
            monkeypatch.setenv("MLEBENCH_PYTHON", str(python))
            command[0] = "/no/such/python"
        printed = SlurmEngine().submit(Job(name="job", folder=tmp_path), command, Resources(seconds=1))
        assert printed.splitlines() == [str(python), *arguments]
