"""Methods of ``Bench`` that the extras ``audit`` and ``bundles`` add."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_mlebench import Bench, UsageError
from pytest_mlebench.extras.bundles.card import CheckResult
from pytest_mlebench.records.record import MANIFEST

DIABETES = "smoke-diabetes"


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.chdir(tmp_path)
    return Bench(sandbox="local", data_dir=tmp_path / "data")


@pytest.mark.full
def test_a_group_is_audited_packed_and_verified(bench: Bench, tmp_path: Path) -> None:
    group = bench.run("dummy", DIABETES, group="mine")
    found = bench.audit("mine")
    assert found.runs == (group.records[0].run_id,) and (group.folder / "audit.json").is_file()
    made = bench.bundle(group, tmp_path / "mine.tar.zst")
    card = bench.verify(tmp_path / "mine.tar.zst", digest=made.digest)
    assert card.result is CheckResult.verified and not card.violations
    assert bench.verify(tmp_path / "mine.tar.zst", digest="0" * 64).result is CheckResult.differs
    bench.bundle("mine", tmp_path / "less.tar.zst", leave_out=["logs"])
    assert bench.verify(tmp_path / "less.tar.zst").left_out[0].startswith("logs: ")


def test_unknown_kinds_of_files_groups_and_bundles_are_rejected(bench: Bench, tmp_path: Path) -> None:
    group = bench.run("dummy", DIABETES, group="mine")
    with pytest.raises(UsageError, match="'weights' is not one of submissions"):
        bench.bundle(group, tmp_path / "mine.tar.zst", leave_out=["weights"])
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="pipe cannot be written: it exists, and is not a file"):
        bench.bundle(group, tmp_path / "pipe")
    assert (tmp_path / "pipe").is_fifo()
    with pytest.raises(UsageError, match="is not a bundle"):
        bench.verify(group.folder / MANIFEST)
    with pytest.raises(UsageError, match=f"^file not found: {tmp_path / 'missing'}$"):
        bench.verify(tmp_path / "missing")
    with pytest.raises(UsageError, match="nowhere"):
        bench.audit("nowhere")
