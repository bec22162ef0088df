"""``mlebench reproduce``: reruns the code that an agent left, without a network and without models."""

from __future__ import annotations

import argparse
import logging
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pytest_mlebench.cli.common import add_options, print_json, read_bench
from pytest_mlebench.cli.groups import find_run
from pytest_mlebench.data.dataset import OBFUSCATED
from pytest_mlebench.errors import DataError, SandboxError, UsageError, reason
from pytest_mlebench.extras.bundles.bundle import REPRODUCED, REPRODUCED_LOG
from pytest_mlebench.extras.bundles.reproduce import Likeness, as_agent, compare, program_of
from pytest_mlebench.io import files
from pytest_mlebench.io.units import one_line
from pytest_mlebench.io.values import write_json
from pytest_mlebench.records.record import RECORD, RUN_LOG, RunRecord
from pytest_mlebench.reports.progress import Lines
from pytest_mlebench.runs.run import run_agent

logger = logging.getLogger("pytest_mlebench")


def add(commands: Any) -> None:
    command = commands.add_parser("reproduce", help="rerun an agent's code, and compare its submissions",
        description="Run the code that an agent left (code/reproduce.sh, or the only program in code/: Python, shell, "
        "R or a Jupyter notebook) in a fresh container of the run's image, without a network and without models, and "
        "compare its submission with the run's: equal, close, different, or does not run.")  # fmt: skip
    command.add_argument("run", metavar="RUN", help="a run's directory, GROUP/RUN or RUN below --runs-dir")
    command.add_argument("--program", metavar="FILE", help="the program in code/ to run, if there are several")
    add_options(command, "--runs-dir", "--competitions-dir", "--data-dir", "--sandbox", "--time-limit", "--cpus",
        "--memory", "--gpus", "--gpu-ids", "--runtime")  # fmt: skip
    command.add_argument("--json", action="store_true", help="print the result as JSON")
    command.set_defaults(command=_reproduce)


def _reproduce(options: argparse.Namespace) -> int:
    bench = read_bench(options, Lines())
    settings = bench.settings
    run_dir = find_run(options.run, bench)
    try:
        record = RunRecord.read(run_dir)
    except (OSError, ValueError) as error:
        raise UsageError(f"{run_dir / RECORD} is not a run record: {reason(error)}") from error
    if not record.report.submission_exists:
        raise UsageError(f"{run_dir.name} left no submission: there is nothing to compare with")
    chosen = None if options.program is None else program_of(run_dir, options.program)
    # Building the image needs no network: it only adds the code to the run's image.
    local = settings.sandbox == "local"  # requested by the user for this program
    bench = bench.with_settings(
        network="llm" if local else "none", build_network="none", trust_agents=("reproduce",) if local else ()
    )
    graders = bench.regrader(record.report.bench_version)
    dataset = graders.dataset(record)
    if (obstacle := graders.obstacle(record)) is not None or dataset is None:
        raise DataError(f"{run_dir.name} cannot be reproduced: {obstacle}")
    program = chosen or program_of(run_dir)
    with files.scratch(prefix="mlebench-reproduce-") as scratch:
        agent = as_agent(record, run_dir, Path(scratch), program)
        sandbox = bench.sandbox(agent)
        sandbox.check(agent)
        how = replace(
            bench.run_options(Path(scratch) / "runs"),
            gateway=None,
            snapshots=None,
            obfuscated=record.description == OBFUSCATED,
        )
        again = run_agent(agent, dataset.competition, dataset, sandbox, how, seed=record.seed)
        if again.error is not None:
            raise SandboxError(again.error)
        found = compare(record, run_dir, again, how.folder / again.run_id)
        result = {
            **asdict(found),
            "run_id": record.run_id,
            "program": program,
            "reproduced_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "seconds": again.seconds,
            "network": again.sandbox.network,
            "image": record.sandbox.image,
            "description": again.description,
        }
        write_json(run_dir / REPRODUCED, result)
        if found.likeness is Likeness.does_not_run:
            (run_dir / REPRODUCED_LOG).write_bytes((how.folder / again.run_id / RUN_LOG).read_bytes()[-(1 << 20) :])
            logger.info("its output: %s", run_dir / REPRODUCED_LOG)
    if options.json:
        print_json(result)
    else:
        print(one_line(f"{record.run_id}: {found.likeness}: {found.detail}"))
    return 0 if found.likeness in (Likeness.equal, Likeness.close) else 1
