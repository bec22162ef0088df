"""``mlebench reproduce``: the code that an agent left, run again without a network and without models."""

from __future__ import annotations

import argparse
import logging
import tempfile
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pytest_mlebench import factories
from pytest_mlebench.cli.common import add_options, print_json, read_settings
from pytest_mlebench.cli.trajectory import find_run
from pytest_mlebench.errors import DataError, UsageError, reason

logger = logging.getLogger("pytest_mlebench")


def add(commands: Any) -> None:
    command = commands.add_parser("reproduce", help="run the code that an agent left again, and compare",
        description="Run the code that an agent left (code/reproduce.sh, or the only program in code/) in a fresh "
        "container of the run's image, without a network and without models, and compare its submission with the "
        "run's: equal, close, different, or does not run.")  # fmt: skip
    command.add_argument("run", metavar="RUN", help="a run's directory, GROUP/RUN or RUN below --runs-dir")
    add_options(command, "--runs-dir", "--competitions-dir", "--data-dir", "--sandbox", "--time-limit", "--cpus",
        "--memory", "--gpus", "--gpu-ids", "--runtime")  # fmt: skip
    command.add_argument("--json", action="store_true", help="print the result as JSON")
    command.set_defaults(command=_reproduce)


def _reproduce(options: argparse.Namespace) -> int:
    from pytest_mlebench.audit.reproduce import Likeness, as_agent, compare
    from pytest_mlebench.grading.grader import Grader
    from pytest_mlebench.grading.verdicts import FormChecker
    from pytest_mlebench.reports.progress import Lines
    from pytest_mlebench.runs.json_files import read_json, write_json
    from pytest_mlebench.runs.layout import RECORD, SUBMISSION
    from pytest_mlebench.runs.record import RunRecord
    from pytest_mlebench.sandbox.contract import Task

    settings = read_settings(options)
    run_dir = find_run(options.run, settings.runs_dir)
    try:
        record = read_json(run_dir / RECORD, RunRecord)
    except (OSError, ValueError) as error:
        raise UsageError(f"{run_dir / RECORD} is no run's record: {reason(error)}") from error
    # Nothing is fetched for the image, which is the run's with the code in it.
    settings = replace(settings, network="llm" if settings.sandbox == "local" else "none", build_network="full")
    version = replace(settings, bench_version=record.report.bench_version.removeprefix("v"))
    competition = factories.catalogue(version)[record.competition_id]
    dataset = factories.data_store(settings).dataset(competition)
    if not dataset.is_prepared:
        raise DataError(f"the data of {competition.id} is not here: `mlebench prepare -c {competition.id}`")
    grading = factories.grading_options(settings)
    with tempfile.TemporaryDirectory(prefix="mlebench-reproduce-") as scratch:
        agent = as_agent(record, run_dir, Path(scratch))
        again = Path(scratch) / f"{record.competition_id}_reproduced"
        again.mkdir()
        sandbox = factories.Sandboxes(settings, Lines()).choose(agent)
        sandbox.check(agent)
        launch = replace(agent.launch(), environment={"SEED": str(record.seed)})
        checker = FormChecker(competition, dataset.public, **grading)
        execution = sandbox.run(
            Task(
                competition_id=competition.id,
                agent=agent,
                launch=launch,
                public=dataset.public,
                run_dir=again,
                validate=checker,
                stop_validation=checker.stop,
                max_submission_bytes=settings.max_submission_size,
                limits=factories.limits(settings),
            )
        )
        report = Grader(competition, dataset, **grading).report(again / SUBMISSION)
        found = compare(record, run_dir, again, report, execution)
        result = {
            **asdict(found),
            "run_id": record.run_id,
            "reproduced_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "seconds": execution.seconds,
            "network": execution.sandbox.network,
            "image": record.sandbox.image,
        }
        write_json(run_dir / "reproduced.json", result)
        if found.likeness is Likeness.does_not_run:
            (run_dir / "reproduced.log").write_bytes((again / "run.log").read_bytes()[-(1 << 20) :])
            logger.info("what it printed: %s", run_dir / "reproduced.log")
    if options.json:
        print_json(result)
    else:
        print(f"{record.run_id}: {found.likeness}: {found.detail}")
    return 0 if found.likeness in (Likeness.equal, Likeness.close) else 1
