"""The ``mlebench`` command: prepare data and grade submissions without pytest."""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_mlebench import __version__
from pytest_mlebench.catalog import Competition, default_catalogue
from pytest_mlebench.catalog.catalogue import SPLIT_NAMES, bundled, read_ids
from pytest_mlebench.catalog.competition import FILE_NAME
from pytest_mlebench.catalog.leaderboard import MEDALS
from pytest_mlebench.data.store import Dataset, DataStore, default_data_dir
from pytest_mlebench.errors import DataError, MLEBenchError, UsageError
from pytest_mlebench.quantities import parse_size

if TYPE_CHECKING:
    from pytest_mlebench.grading.report import Report

logger = logging.getLogger("pytest_mlebench")

Command = Callable[[argparse.Namespace], int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status is 0, 1 where something failed, 2 where the call was wrong."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    command: Command = options.command
    try:
        return command(options)
    except UsageError as error:
        print(f"mlebench: {error}", file=sys.stderr)
        return 2
    except MLEBenchError as error:
        print(f"mlebench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("mlebench: interrupted", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="mlebench", description=__doc__)
    parser.add_argument("--version", action="version", version=f"mlebench {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    prepare = commands.add_parser("prepare", help="prepare competitions' data")
    _add_selection(prepare, required=True)
    _add_data_dir(prepare)
    prepare.add_argument(
        "--raw-dir",
        type=Path,
        help="an already unpacked download, with one competition only; files that need no change are hard-linked",
    )
    prepare.add_argument("--keep-raw", action="store_true", help="keep the store's raw data after preparation")
    prepare.add_argument("--skip-verification", action="store_true", help="do not compare with the known checksums")
    prepare.add_argument("--json", action="store_true", help="print what was done as JSON")
    prepare.add_argument("--force", action="store_true", help="prepare again what is prepared")
    prepare.set_defaults(command=_prepare)

    grade = commands.add_parser("grade", help="grade submissions that a JSONL file lists")
    grade.add_argument("--submission", type=Path, required=True, metavar="FILE.jsonl",
        help="one JSON object a line with competition_id and submission_path")  # fmt: skip
    grade.add_argument("--output-dir", type=Path, required=True, help="where the grading report goes")
    _add_grading(grade)
    grade.set_defaults(command=_grade)

    sample = commands.add_parser("grade-sample", help="grade one submission and print its report")
    sample.add_argument("file", type=Path, metavar="FILE")
    sample.add_argument("competition", metavar="ID")
    _add_grading(sample)
    sample.set_defaults(command=_grade_sample)

    listing = commands.add_parser("list", help="show the competitions")
    _add_selection(listing, required=False)
    _add_data_dir(listing)
    listing.add_argument("--json", action="store_true", help="as JSON")
    listing.set_defaults(command=_list)

    build = commands.add_parser("build", help="build the images of agents ahead of time")
    build.add_argument("agents", nargs="*", metavar="AGENT", help="agent ids (default: all bundled agents)")
    build.add_argument("--agents-dir", type=Path, action="append", default=[], metavar="DIR",
        help="a folder of agents beside the bundled ones; repeatable")  # fmt: skip
    build.add_argument("--base-image", metavar="IMAGE", help="what mlebench-env is built from")
    build.add_argument("--heavy", action="store_true", help="with the common machine-learning packages")
    build.set_defaults(command=_build)

    clean = commands.add_parser("clean", help="remove the containers that dead sessions left")
    clean.add_argument("--kept", action="store_true", help="also those that --keep-sandbox kept")
    clean.add_argument("--dry-run", action="store_true", help="only say what would be removed")
    clean.set_defaults(command=_clean)

    golden = commands.add_parser("golden", help="write golden.json of competitions that you are adding")
    golden.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    golden.set_defaults(command=_golden)
    return parser


def _add_data_dir(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data-dir", type=Path, default=default_data_dir(), help="where the data lies (default: %(default)s)"
    )


def _add_grading(parser: argparse.ArgumentParser) -> None:
    _add_data_dir(parser)
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument("--max-submission-size", type=parse_size, default=1 << 30, metavar="SIZE",
        help="largest submission that is read (default: 1g)")  # fmt: skip


def _add_selection(parser: argparse.ArgumentParser, *, required: bool) -> None:
    which = parser.add_mutually_exclusive_group(required=required)
    which.add_argument("-c", "--competition", metavar="ID", action="append", help="one competition (repeatable)")
    which.add_argument("--lite", dest="split", action="store_const", const="lite", help="the 22 of the lite split")
    which.add_argument("--all", dest="split", action="store_const", const="all", help="all 75")
    which.add_argument("--split", help=f"one of {', '.join(SPLIT_NAMES)}, or a file with an id a line")
    which.add_argument("-l", "--list", type=Path, metavar="FILE", help="a file with an id a line")


def _selected(options: argparse.Namespace) -> list[Competition]:
    catalogue = default_catalogue()
    if options.split is not None:
        return catalogue.split(options.split)
    ids = read_ids(options.list) if options.list is not None else options.competition
    return [catalogue[id] for id in ids] if ids is not None else list(catalogue)


def _prepare(options: argparse.Namespace) -> int:
    competitions = _selected(options)
    if options.raw_dir is not None:
        if len(competitions) != 1:
            raise UsageError(f"--raw-dir goes with one competition, not with {len(competitions)}")
        if not options.raw_dir.is_dir():
            raise UsageError(f"--raw-dir {options.raw_dir} is not a folder")
    store = DataStore(options.data_dir)
    done: dict[str, Any] = {}
    for competition in competitions:
        try:
            dataset = store.prepare(
                competition,
                raw_dir=options.raw_dir,
                verify=not options.skip_verification,
                force=options.force,
                keep_raw=options.keep_raw,
            )
        except DataError as error:
            logger.error("%s", error)
            done[competition.id] = {"prepared": False, "error": str(error)}
        else:
            logger.info("%s: prepared in %s%s", competition.id, dataset.prepared, _verification(dataset))
            done[competition.id] = {"prepared": True, "path": str(dataset.prepared), "verified": dataset.is_verified}
    if options.json:
        _print_json(done)
    return 0 if all(result["prepared"] for result in done.values()) else 1


def _verification(dataset: Dataset) -> str:
    if dataset.is_verified is False:
        return " (it is not the reference's data: checksums differ)"
    return " (checksums hold)" if dataset.is_verified and dataset.competition.checksums else ""


def _grade(options: argparse.Namespace) -> int:
    from pytest_mlebench.grading.grader import Grader
    from pytest_mlebench.results.grading_report import grading_report
    from pytest_mlebench.results.record import write_json

    store, graders, reports = DataStore(options.data_dir), dict[str, Grader](), []
    for line, competition, path in _read_submissions(options.submission):
        if competition.id not in graders:
            graders.clear()  # one competition's answers in memory at a time
            dataset = _prepared(store, competition)
            graders[competition.id] = Grader(competition, dataset, max_bytes=options.max_submission_size)
        report = graders[competition.id].report(path)
        reports.append(report)
        logger.info("line %d: %s", line, _summary(report))
    summary = grading_report(reports)
    options.output_dir.mkdir(parents=True, exist_ok=True)
    path = options.output_dir / f"{datetime.now(UTC):%Y-%m-%dT%H-%M-%S-UTC}_grading_report.json"
    write_json(path, summary)
    logger.info("%d submissions, %d valid, %d medals: %s", len(reports), summary["total_valid_submissions"],
        summary["total_medals"], path)  # fmt: skip
    if options.json:
        _print_json(summary)
    return 0


def _read_submissions(path: Path) -> Iterator[tuple[int, Competition, Path]]:
    """Line number, competition and submission of each line; raises UsageError that names the line."""
    catalogue = default_catalogue()
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith(("#", "//")):
            continue
        try:
            values = json.loads(text)
            id, submission = str(values["competition_id"]), values["submission_path"]
        except (ValueError, TypeError, KeyError) as error:
            raise UsageError(f"{path}, line {number}: needs competition_id and submission_path ({error!r})") from error
        try:
            yield number, catalogue[id], Path(submission or "")
        except UsageError as error:
            raise UsageError(f"{path}, line {number}: {error}") from error


def _grade_sample(options: argparse.Namespace) -> int:
    from pytest_mlebench.grading.grader import grade

    competition = default_catalogue()[options.competition]
    dataset = _prepared(DataStore(options.data_dir), competition)
    report = grade(options.file, competition, dataset, max_bytes=options.max_submission_size)
    if options.json:
        _print_json(report.to_json())
    else:
        print(_summary(report))
    return 0 if report.valid_submission else 1


def _prepared(store: DataStore, competition: Competition) -> Dataset:
    dataset = store.dataset(competition)
    return dataset if dataset.is_prepared else store.prepare(competition)


def _summary(report: Report) -> str:
    if not report.valid_submission:
        return f"{report.competition_id}: invalid: {report.error}"
    medal = report.medal or ("above median" if report.above_median else "no medal")
    thresholds = ", ".join(f"{name} {getattr(report, f'{name}_threshold'):g}" for name in (*MEDALS, "median"))
    return f"{report.competition_id}: score {report.score}, {medal} ({thresholds})"


def _list(options: argparse.Namespace) -> int:
    store = DataStore(options.data_dir)
    rows = [_list_row(competition, store.dataset(competition)) for competition in _selected(options)]
    if options.json:
        _print_json(rows)
        return 0
    heads = ("id", "split", "category", "metric", "direction", "teams", *MEDALS, "median", "state")
    table = [heads, *(tuple(str(row[head]) for head in heads) for row in rows)]
    widths = [max(len(line[k]) for line in table) for k in range(len(heads))]
    for line in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    return 0


def _list_row(competition: Competition, dataset: Dataset) -> dict[str, Any]:
    leaderboard = competition.leaderboard
    state = "absent"
    if dataset.is_prepared:
        state = {True: "prepared", False: "prepared (not the reference's)", None: "prepared"}[dataset.is_verified]
    elif competition.source == "bundled":
        state = "bundled"
    elif dataset.raw.is_dir():
        state = "raw"
    return {
        "id": competition.id,
        "title": competition.title,
        "split": competition.split,
        "category": competition.category,
        "metric": competition.metric,
        "direction": competition.direction,
        "teams": leaderboard.teams,
        "gold": leaderboard.gold,
        "silver": leaderboard.silver,
        "bronze": leaderboard.bronze,
        "median": leaderboard.median,
        "state": state,
        "known_issues": list(competition.known_issues),
    }


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=2))


def _build(options: argparse.Namespace) -> int:
    from pytest_mlebench.agents import AgentRegistry
    from pytest_mlebench.sandbox.docker import DockerSandbox
    from pytest_mlebench.sandbox.images import BASE_IMAGE

    registry = AgentRegistry(bundled("agents"), *options.agents_dir)
    agents = [registry[id] for id in options.agents] or list(registry.load().values())
    sandbox = DockerSandbox(base_image=options.base_image or BASE_IMAGE, heavy=options.heavy, progress=logger.info)
    for agent in agents:
        logger.info("%s: %s", agent.id, sandbox.images.agent(agent))
    return 0


def _clean(options: argparse.Namespace) -> int:
    from pytest_mlebench.sandbox.cleanup import clean

    for leftover in clean(kept=options.kept, dry_run=options.dry_run):
        print(leftover)
    return 0


def _golden(options: argparse.Namespace) -> int:
    from pytest_mlebench.grading.golden import make_golden

    for folder in options.folders:
        competition = Competition.load(folder / FILE_NAME)
        with tempfile.TemporaryDirectory() as scratch:
            golden = make_golden(competition, Path(scratch))
        path = folder / "golden.json"
        path.write_text(json.dumps(golden, indent=1) + "\n", encoding="utf-8")
        logger.info("%s: %d scores, %d invalid", path, len(golden["scores"]), len(golden["invalid"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
