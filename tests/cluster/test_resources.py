"""Jobs request what the run and its grading need. If no node has that, this is an immediate error."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.data.store import DataStore
from pytest_mlebench.errors import ClusterError
from pytest_mlebench.extras.engines import ray, session
from pytest_mlebench.extras.engines.contract import Resources
from pytest_mlebench.extras.engines.resources import check_largest, is_known, job_resources, request_text
from pytest_mlebench.extras.engines.slurm import SlurmEngine
from pytest_mlebench.options import Settings, read
from pytest_mlebench.records.record import RunKey

SMALL, UNKNOWN = "aerial-cactus-identification", "spaceship-titanic"


@pytest.fixture
def settings() -> Settings:
    return replace(read([], runs_dir=Path("runs")), memory=1 << 30, time_limit=600.0)


def dataset(tmp_path: Path, id: str) -> Dataset:
    return Dataset(default_catalogue()[id], tmp_path / id)


def test_jobs_request_memory_for_grading_and_time_for_the_limit(settings: Settings, tmp_path: Path) -> None:
    small, unknown = (job_resources(settings, dataset(tmp_path, id)) for id in (SMALL, UNKNOWN))
    assert small.memory is not None and small.memory < 1.2 * (1 << 30)
    assert unknown.memory == settings.grading_memory == 8 << 30, "the size of its answers is not known yet"
    assert [is_known(settings, dataset(tmp_path, id)) for id in (SMALL, UNKNOWN)] == [True, False]
    assert small.seconds <= 3600 + 600, "a run of 10 minutes does not request hours"
    assert job_resources(replace(settings, time_limit=86400.0), dataset(tmp_path, SMALL)).seconds >= 86400 + 7800
    assert job_resources(replace(settings, grading_memory=4 << 30), dataset(tmp_path, SMALL)).memory == 4 << 30
    assert job_resources(replace(settings, memory=None), dataset(tmp_path, UNKNOWN)).memory is None


def test_memory_depends_on_the_size_of_prepared_answers(settings: Settings, tmp_path: Path) -> None:
    prepared = dataset(tmp_path, SMALL)
    for path in prepared.required:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\n" * (50 << 20))
    assert (job_resources(settings, prepared).memory or 0) >= 2 << 30


def test_jobs_request_memory_for_the_data_of_their_seed(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with ``--twin-per-seed``: each seed has its own data store."""
    competition, requested = default_catalogue()[SMALL], list[Resources]()
    for seed, size in enumerate((1 << 20, 50 << 20)):
        for path in DataStore(tmp_path / str(seed)).dataset(competition).required:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"\n" * size)
    bench = SimpleNamespace(store=DataStore(tmp_path / "0"), store_of=lambda seed: DataStore(tmp_path / str(seed)))
    state = SimpleNamespace(settings=replace(settings, cluster="slurm"), bench=bench, group=tmp_path, reader=object())
    engine = SimpleNamespace(name="slurm", check_resources=requested.append, max_parallel=None)
    for name, value in (("session_of", state), ("engine_of", engine), ("reporter_of", print)):
        monkeypatch.setattr(session, name, lambda config, value=value: value)
    config: Any = None
    runs: Any = [SimpleNamespace(key=RunKey("baseline", SMALL, seed), competition=competition) for seed in (0, 1)]
    queue = session._queue(config, runs)
    plans: Any = [SimpleNamespace(competition_id=SMALL, seed=seed) for seed in (0, 1)]
    first, second = (queue._resources(plan).memory for plan in plans)
    assert first is not None and second is not None and first < second == requested[0].memory


def test_the_error_for_impossible_requests_names_the_options(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sbatch = tmp_path / "sbatch"
    sbatch.write_text(
        '#!/bin/sh\ncase "$*" in *--mem=9216M*) '
        'echo "sbatch: error: Memory specification can not be satisfied" >&2; exit 1;; esac\n'
    )
    sbatch.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    engine = SlurmEngine()
    check_largest(engine, settings, [Resources(seconds=600, memory=1 << 30)])
    with pytest.raises(ClusterError) as raised:
        check_largest(engine, settings, [Resources(seconds=2400, memory=8 << 30), Resources(seconds=600)])
    said = str(raised.value)
    assert "Memory specification can not be satisfied" in said
    assert "40 min (--time-limit=10 min plus" in said and "8 GiB of memory (--memory=1 GiB or what grading" in said
    assert "--memory" not in request_text("slurm", replace(settings, memory=None), [Resources(seconds=1)])


@pytest.mark.parametrize(("cpus", "expected"), [(None, 1), (4.0, 4), (0.5, 0.5), (1e-5, 1e-4), (1 / 3, 0.3334)])
def test_processors_are_requested_with_the_precision_of_ray(cpus: float | None, expected: float) -> None:
    assert ray.requests(Resources(seconds=1, cpus=cpus)) == {"num_cpus": expected}
