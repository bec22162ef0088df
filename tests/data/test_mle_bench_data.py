"""Data prepared by MLE-bench is found in its folder and used unchanged."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pytest_mlebench import DataError, DataStore, default_catalogue

pytestmark = pytest.mark.full

ID = "smoke-digits"


def prepare_as_mle_bench(folder: Path, description: str | None = "# Which digit?\n") -> DataStore:
    """Write prepared data without a state, like MLE-bench."""
    store = DataStore(folder)
    dataset = store.prepare(default_catalogue()[ID])
    for name in ("state.json", "files.jsonl.gz"):
        (dataset.folder / name).unlink()
    if description is not None:
        (dataset.public / "description.md").unlink()
        (dataset.public / "description.md").write_text(description)
    return store


def test_its_description_is_identified(tmp_path: Path) -> None:
    competition = default_catalogue()[ID]
    assert DataStore(tmp_path / "none").dataset(competition).description is None
    assert prepare_as_mle_bench(tmp_path / "theirs").dataset(competition).description == "other"
    assert prepare_as_mle_bench(tmp_path / "ours", description=None).dataset(competition).description == "bundled"


@pytest.mark.parametrize("description", ["kaggle", "bundled"])
def test_it_is_used_for_any_kind_of_description(description: str, tmp_path: Path) -> None:
    store, competition = prepare_as_mle_bench(tmp_path), default_catalogue()[ID]
    assert not store.is_usable(competition)  # times and inodes may reveal labels
    store.prepare(competition)
    assert store.is_usable(competition, description=description)  # type: ignore[arg-type]
    assert not store.is_ready(competition, description=description)  # type: ignore[arg-type]


def test_our_own_data_with_another_description_is_not_used(tmp_path: Path) -> None:
    store, competition = DataStore(tmp_path), default_catalogue()[ID]
    store.prepare(competition)
    assert store.is_usable(competition, description="bundled")
    assert not store.is_usable(competition, description="kaggle")


def test_it_is_found_in_mle_benchs_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    store, competition = DataStore(tmp_path / "mine"), default_catalogue()[ID]
    with pytest.raises(DataError) as error:
        store.verify(competition)
    assert "MLE-bench" not in str(error.value)
    prepare_as_mle_bench(tmp_path / "mle-bench/data")
    with pytest.raises(DataError) as error:
        store.verify(competition)
    assert str(error.value).endswith(
        f"or use the data that MLE-bench has prepared: --data-dir {tmp_path / 'mle-bench/data'}"
    )


def test_a_run_uses_it_and_records_which_description_the_agent_read(tmp_path: Path) -> None:
    prepare_as_mle_bench(tmp_path / "data").prepare(default_catalogue()[ID])
    options = ("--prepare=never", "--description=kaggle", f"--data-dir={tmp_path / 'data'}", "--sandbox=local")
    command = (sys.executable, "-m", "pytest", "--agent=dummy", "-k", ID, f"--runs-dir={tmp_path / 'runs'}", *options)
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    (record,) = (tmp_path / "runs").glob("*/*/run.json")
    assert '"description": "other"' in record.read_text()
