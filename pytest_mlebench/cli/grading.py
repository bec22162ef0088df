"""``mlebench grade``, ``grade-sample``, ``golden`` and ``regrade``: grade submissions, and record what graders give."""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_mlebench.catalog import Catalogue, Competition
from pytest_mlebench.catalog.competition import FIRST
from pytest_mlebench.cli import common
from pytest_mlebench.cli.common import logger
from pytest_mlebench.defaults import MEDALS
from pytest_mlebench.errors import UsageError, reason
from pytest_mlebench.gate.golden import make_golden, write_golden
from pytest_mlebench.io.files import expanded, scratch
from pytest_mlebench.io.units import one_line, pluralize
from pytest_mlebench.io.values import loads, write_json
from pytest_mlebench.records.group import grading_report
from pytest_mlebench.reports.progress import Lines
from pytest_mlebench.reports.sections import changes_table, not_graded_remarks, summary
from pytest_mlebench.reports.tables import terminal_width
from pytest_mlebench.results.findings import generated_data

if TYPE_CHECKING:
    from pytest_mlebench.records.outcome import Report


def add(commands: Any) -> None:
    grade = commands.add_parser("grade", help="grade the submissions listed in a JSONL file")
    grade.add_argument("--submission", type=common.user_path, required=True, metavar="FILE.jsonl",
        help="one JSON object per line, with competition_id and submission_path")  # fmt: skip
    grade.add_argument(
        "--output-dir", type=common.user_path, required=True, metavar="DIR", help="folder for the grading report"
    )
    _add_grading(grade)
    grade.set_defaults(command=_grade)

    sample = commands.add_parser("grade-sample", help="grade one submission and print its report")
    sample.add_argument("file", type=common.user_path, metavar="FILE")
    sample.add_argument("competition", metavar="ID")
    _add_grading(sample)
    sample.set_defaults(command=_grade_sample)

    golden = commands.add_parser("golden", help="write golden.json for competitions that you add or change")
    golden.add_argument("competitions", nargs="+", metavar="COMPETITION", help="a competition's folder, or its id")
    golden.add_argument("--force", action="store_true",
        help="replace the reference's results with those of the files in the folder")  # fmt: skip
    common.add_options(golden, "--competitions-dir", "--bench-version")
    golden.set_defaults(command=_golden)

    command = commands.add_parser("regrade", help="regrade a run group's stored submissions; its results stay",
        description="Regrade a run group's stored submissions, after a grader was fixed or with another version of the "
        "benchmark. The runs' records stay; the new grades are written to regraded-*.json in the group."
        )  # fmt: skip
    command.add_argument("group", metavar="GROUP", help=common.GROUP_OR_BUNDLE_HELP)
    common.add_options(command, "--runs-dir", "--bench-version", "--competitions-dir", "--data-dir",
        "--max-submission-size", "--grading-memory", "--grading-time")  # fmt: skip
    command.add_argument("--json", action="store_true", help="print the result as JSON")
    command.set_defaults(command=_regrade)


def _add_grading(parser: argparse.ArgumentParser) -> None:
    common.add_options(parser, "--competitions-dir", "--bench-version", "--data", "--data-dir", "--max-submission-size",
        "--grading-memory", "--grading-time")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print the report as JSON")


def _grade(options: argparse.Namespace) -> int:
    bench = common.read_bench(options)
    submissions = _read_submissions(options.submission, bench.catalogue)
    _make_folder(options.output_dir)
    if not submissions:
        raise UsageError(f"{options.submission} lists no submission; each line must name one")
    reports = []
    graded = bench.grade_all((competition, path) for _, competition, path in submissions)
    for (line, *_), report in zip(submissions, graded, strict=True):
        reports.append(report)
        logger.info("line %d: %s", line, _summary(report))
    _warn_generated(reports)
    summary = grading_report(reports)
    path = _new_report(options.output_dir)
    write_json(path, summary)
    count, medals = pluralize(len(reports), "submission"), pluralize(summary["total_medals"], "medal")
    logger.info("%s, %d valid, %s: %s", count, summary["total_valid_submissions"], medals, path)
    if options.json:
        common.print_json(summary)
    return 0


def _new_report(folder: Path) -> Path:
    """Create an empty file for a grading report. Waits for the next second if another report has this one's name."""
    while True:
        path = folder / f"{datetime.now(UTC):%Y-%m-%dT%H-%M-%S-UTC}_grading_report.json"
        with suppress(FileExistsError):
            path.touch(exist_ok=False)
            return path
        time.sleep(0.1)


def _make_folder(folder: Path) -> None:
    """Create the output folder before hours of grading. Raises UsageError if it is not writable."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UsageError(f"--output-dir: {folder} cannot be written: {reason(error)}") from error


def _read_submissions(path: Path, catalogue: Catalogue) -> list[tuple[int, Competition, Path]]:
    """Return the number, competition and submission of each line. Raises UsageError that names the line."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")  # JSON texts may contain other line separators
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {reason(error)}") from error
    found = []
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith(("#", "//")):
            continue
        try:
            id, submission = _parse_submission(text)
            found.append((number, catalogue[id], expanded(submission)))
        except (ValueError, UsageError) as error:
            raise UsageError(f"{path}, line {number}: {error}") from error
    return found


def _parse_submission(line: str) -> tuple[str, str]:
    """Return the competition and path of a line. Raises ValueError with the reason."""
    values = loads(line)
    if not isinstance(values, dict) or not {"competition_id", "submission_path"} <= values.keys():
        raise ValueError(f"it must be an object with competition_id and submission_path, not {json.dumps(values):.60}")
    id, submission = values["competition_id"], values["submission_path"]
    if submission is None:  # the run has no submission
        submission = ""
    if not isinstance(id, str) or not isinstance(submission, str) or "\0" in submission:
        raise ValueError("competition_id must be a string, and submission_path a path or null")
    return id, submission


def _grade_sample(options: argparse.Namespace) -> int:
    bench = common.read_bench(options)
    catalogue = bench.catalogue
    if options.competition not in catalogue and str(options.file) in catalogue:
        raise UsageError(f"the file comes first: mlebench grade-sample {options.competition} {options.file}")
    competition = catalogue[options.competition]
    if options.file.is_dir():
        raise UsageError(f"{options.file} is a folder; name the file of the submission")
    # Before gigabytes are downloaded.
    if not options.file.exists() and not bench.store.dataset(competition).is_prepared:
        raise UsageError(f"file not found: {options.file}; name the submission, a CSV file")
    (report,) = bench.grade_all([(competition, options.file)])
    if options.json:
        common.print_json(report.to_json())
    else:
        print(_summary(report))
    _warn_generated([report])
    return 0 if report.valid_submission else 1


def _warn_generated(reports: Collection[Report]) -> None:
    for what, ids, why in generated_data({report.competition_id: report.generated for report in reports}):
        logger.warning("%s (%s):%s", what, ", ".join(ids), why)


def _summary(report: Report) -> str:
    if not report.valid_submission:
        return f"{report.competition_id}: invalid: {report.error}"
    medal = report.medal or ("above median" if report.above_median else "no medal")
    thresholds = ", ".join(f"{name} {getattr(report, f'{name}_threshold'):g}" for name in (*MEDALS, "median"))
    firm = f", {'firmness unknown' if report.firm is None else report.firmness}" if report.medal else ""
    return f"{report.competition_id}: score {report.score}, {medal}{firm} ({thresholds})"


def _competition_folder(name: str, catalogue: Catalogue) -> Path:
    """Return the folder of a competition, given as a folder or an id."""
    path = Path(name)
    if path.is_dir():
        return path
    if path.is_file():
        raise UsageError(f"{name} is a file; name the competition's folder: {path.resolve().parent}")
    if "/" in name:
        raise UsageError(f"folder not found: {name}")
    return catalogue[name].folder


def _golden(options: argparse.Namespace) -> int:
    bench = common.read_bench(options)
    settings, catalogue = bench.settings, bench.catalogue
    reporter = Lines()
    for name in options.competitions:
        folder = _competition_folder(name, catalogue)
        competition = Competition.load(folder, version=settings.version)
        if settings.version != FIRST and not competition.is_corrected:
            raise UsageError(f"{folder} has no folder {settings.version}: it uses the first version's golden.json")
        with scratch() as work:
            made = make_golden(competition, Path(work), reporter=reporter)
        golden = write_golden(competition, made, force=options.force)
        counts = (len(golden["scores"]), len(golden["invalid"]), golden["origin"])
        logger.info("%s: %d scores, %d invalid, origin: %s", competition.file("golden.json"), *counts)
    return 0


def _regrade(options: argparse.Namespace) -> int:
    bench = common.read_bench(options)
    group = bench.group(options.group)
    common.warn_if_missing(bench.store)
    result = bench.regrade(group)
    if options.json:
        common.print_json(asdict(result))
        return 1 if result.not_graded else 0
    if table := changes_table(result):
        print(table.text(terminal_width()))
    for remark in not_graded_remarks(result):
        print(one_line(remark))
    print(summary(result))
    return 1 if result.not_graded else 0
