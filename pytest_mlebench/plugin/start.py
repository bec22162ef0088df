"""The start of a session that runs agents: its run group and its agents."""

from __future__ import annotations

import secrets
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pytest_mlebench.bench import Bench
from pytest_mlebench.errors import UsageError
from pytest_mlebench.options import Settings
from pytest_mlebench.plugin import internals, options
from pytest_mlebench.plugin.running import runs_of
from pytest_mlebench.plugin.session import (
    Session,
    engines,
    replace_session,
    session_of,
    usage_errors,
)
from pytest_mlebench.records.group import LAST, GroupReader, find_group
from pytest_mlebench.records.layout import MANIFEST
from pytest_mlebench.records.manifest import Manifest, PlannedRun
from pytest_mlebench.records.record import RunRecord
from pytest_mlebench.sandbox.gpus import GpuPool


def start(config: pytest.Config) -> None:
    """Read the run group and the agents of ``--agent`` and ``--resume``; raises pytest.UsageError."""
    with usage_errors():
        _start_runs(config, session_of(config).settings)


def _start_runs(config: pytest.Config, settings: Settings) -> None:
    sent = internals.worker_input(config)
    folder = Path(sent["mlebench_group"]) if sent else _group_folder(settings)
    resumed: tuple[PlannedRun, ...] = ()
    if settings.resume:
        manifest = Manifest.read(folder)
        if manifest is None:
            raise UsageError(f"run group {folder} has no {MANIFEST}: it cannot be resumed")
        settings, resumed = options.read_resumed(config, manifest, folder / MANIFEST), manifest.runs
    finished = [RunRecord.from_json(values) for values in sent["mlebench_finished"]] if sent else []
    bench = session_of(config).bench
    if sent:
        settings = replace(settings, data=sent["mlebench_data"])
    if settings is not bench.settings:
        bench = Bench(settings=settings, reporter=bench.reporter, workers=bench.workers)
    if not config.option.collectonly:
        bench = bench.settle_twins(folder)
    session = replace_session(
        config,
        bench=bench,
        agents=bench.chosen_agents,
        reader=GroupReader(folder),
        resumed=resumed,
        finished={record.key: record for record in finished},
        worker=sent["workerid"] if sent else "",
        runs_of=runs_of,
    )
    if not sent:
        _check_agents(session)


def read_finished(config: pytest.Config) -> None:
    """Read which runs are finished. To be called when the group is open: until then, workers of a killed session may
    finish some more."""
    session = session_of(config)
    assert session.reader is not None
    again = session.settings.retry_failed
    finished = {record.key: record for record in session.reader.records() if record.outcome not in again}
    replace_session(config, finished=finished)


def _check_agents(session: Session) -> None:
    """Notice before the first run that a secret is not set, or that there are too few GPUs.

    Other machines have GPUs of their own, and their own environment unless ``--cluster-keys`` gives the keys.
    """
    settings, elsewhere = session.settings, session.settings.cluster not in (None, "local")
    if settings.cluster_keys is not None:
        engines().load_keys(settings.cluster_keys)
    elif elsewhere:
        return
    for agent in session.agents:
        session.bench.check_agent(agent)
    if session.settings.gpus and not elsewhere:
        GpuPool(session.settings.gpu_ids).check(session.settings.gpus)


def _group_folder(settings: Settings) -> Path:
    resumed, named = settings.resume, settings.run_group
    if resumed is None:
        return _group(settings.runs_dir, named or _new_group_name())

    folder = find_group(resumed, settings.runs_dir).absolute()
    if named is not None and _group(settings.runs_dir, named) != folder:
        raise UsageError(f"--resume={resumed} and --run-group={named} are two groups; name one")
    return folder


def _group(runs_dir: Path, name: str) -> Path:
    """The group of ``--run-group``, which may be new: any folder, or a name below ``runs_dir``."""
    return (find_group(name, runs_dir) if name == LAST else runs_dir / name).absolute()


def _new_group_name() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H-%M-%S}-{secrets.token_hex(2)}"


def for_workers(config: pytest.Config) -> dict[str, Any]:
    """What xdist workers are given: one group for all, and its records, which are read once."""
    session = session_of(config)
    if not session.settings.has_runs:
        return {}
    finished = [record.to_json() for record in session.finished.values()]
    return {
        "mlebench_group": str(session.group),
        "mlebench_finished": finished,
        "mlebench_data": session.settings.data,
    }
