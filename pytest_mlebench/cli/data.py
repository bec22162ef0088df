"""``mlebench prepare``, ``list``, ``verify``, ``remove`` and ``leaderboard``: the competitions and their data."""

from __future__ import annotations

import argparse
import math
from functools import partial
from typing import Any

from pytest_mlebench.bench import Bench, bundles_extra
from pytest_mlebench.catalog import Competition
from pytest_mlebench.catalog.schema import Leaderboard
from pytest_mlebench.cli import common
from pytest_mlebench.cli.common import logger
from pytest_mlebench.data.dataset import OBFUSCATED, Dataset
from pytest_mlebench.data.download.kaggle import KaggleDownloads
from pytest_mlebench.data.jobs import PreparationResult
from pytest_mlebench.data.preparing import check, open_source
from pytest_mlebench.data.store import DEFAULT_JOBS, DataStore, PrepareOptions
from pytest_mlebench.defaults import MEDALS
from pytest_mlebench.errors import DataError, UsageError
from pytest_mlebench.io import files
from pytest_mlebench.io.progress import Note
from pytest_mlebench.io.units import format_size, pluralize
from pytest_mlebench.records.outcome import TWIN_DATA
from pytest_mlebench.reports.progress import Lines, shown
from pytest_mlebench.reports.tables import Table

SYNTHETIC_SEED = 1


_WIDTH = 100
"""Terminal columns that `mlebench list` fits in."""
_FIELDS = ("teams", *MEDALS, "median")
"""Fields of a leaderboard."""


def add(commands: Any) -> None:
    prepare = commands.add_parser("prepare", help="download, unpack and prepare competitions' data")
    common.add_selection(prepare, required=True)
    common.add_options(prepare, "--data", "--twin-per-seed", "--seeds", "--data-dir", "--data-source", "--description")
    given = prepare.add_mutually_exclusive_group()
    given.add_argument("--raw-dir", type=common.user_path, metavar="DIR",
        help="use this unpacked download of one competition, without changing it")  # fmt: skip
    given.add_argument("--synthetic", action="store_true",
        help="for authors: small data with edge cases, to test graders; nothing can be learned from it (for data "
        "that agents can learn from, see --data=twin)")  # fmt: skip
    prepare.add_argument("--jobs", type=int, default=DEFAULT_JOBS, metavar="N",
        help="number of competitions to download or prepare in parallel (default: %(default)s)")  # fmt: skip
    prepare.add_argument("--keep-raw", action="store_true", help="keep raw data after preparation")
    prepare.add_argument(
        "--skip-verification", action="store_true", help="skip the comparison with the known checksums"
    )
    prepare.add_argument(
        "--skip-denied", action="store_true", help="if Kaggle denies some competitions, prepare the others"
    )
    prepare.add_argument("--skip-disk-check", action="store_true", help="start even if free disk space may not suffice")
    # MLE-bench's developers overwrite with these what verifies data and medals here.
    prepare.add_argument("--overwrite-checksums", "--overwrite-leaderboard", dest="overwrite", action="store_true",
        help=argparse.SUPPRESS)  # fmt: skip
    prepare.add_argument(
        "--json", action="store_true", help="print the result as JSON; for several seeds' twins, a list of results"
    )
    prepare.add_argument("--force", action="store_true", help="prepare again, even if the data is already prepared")
    prepare.set_defaults(command=_prepare)

    push = commands.add_parser("push", help="upload prepared data for other machines (--data-source)",
        description="Upload prepared data to an s3://, gs:// or file:// URL, with an index of digests that is written "
        "last. To resume an interrupted upload, run the same command again.")  # fmt: skip
    push.add_argument("url", metavar="URL", help="a folder: s3://BUCKET/PATH, gs://BUCKET/PATH or file:///PATH")
    common.add_selection(push, required=False)
    common.add_options(push, "--data-dir")
    push.add_argument("--replace", action="store_true", help="replace other data of the competition at the URL")
    push.set_defaults(command=_push)

    listing = commands.add_parser("list", help="list the competitions and the state of their data")
    common.add_selection(listing, required=False)
    common.add_options(listing, "--data", "--data-dir")
    listing.add_argument("--wide", action="store_true", help="also show categories, metrics and the medals' thresholds")
    listing.add_argument("--json", action="store_true", help="print as JSON")
    listing.set_defaults(command=_list)

    verify = commands.add_parser("verify", help="check prepared data, or a bundle of a run group (see `bundle`)",
        description="Check prepared data for missing, changed and unexpected files; or, given FILE, check a bundle of "
        "a run group: regrade its submissions with the data of this machine and compare every number.")  # fmt: skip
    if (bundles := bundles_extra()) is not None:
        bundles.add_verify(verify)
    common.add_selection(verify, required=False)
    common.add_options(verify, "--data-dir", "--max-submission-size", "--grading-memory", "--grading-time")
    verify.add_argument("--json", action="store_true", help="print as JSON")
    verify.set_defaults(command=_verify)

    remove = commands.add_parser("remove", help="remove competitions' data to free disk space")
    common.add_selection(remove, required=True)
    common.add_options(remove, "--data", "--data-dir")
    remove.add_argument("--raw", action="store_true", help="remove only raw data and archives, keep prepared data")
    remove.set_defaults(command=_remove)

    leaderboard = commands.add_parser("leaderboard", help="compare the bundled thresholds with Kaggle's leaderboards")
    common.add_selection(leaderboard, required=True)
    leaderboard.add_argument("--json", action="store_true", help="print as JSON")
    leaderboard.set_defaults(command=_leaderboard)


def _prepare(options: argparse.Namespace) -> int:
    if options.overwrite:
        raise UsageError(
            "--overwrite-checksums and --overwrite-leaderboard are not supported: competition.yaml has the reference's "
            "values. Keep data that differs with --skip-verification, and see `mlebench leaderboard`"
        )
    bench = common.read_bench(options)
    competitions = common.selected(options, bench.catalogue)
    if options.raw_dir is not None:
        if len(competitions) != 1:
            raise UsageError(f"--raw-dir needs exactly one competition, not {len(competitions)}")
        if not options.raw_dir.is_dir():
            raise UsageError(f"--raw-dir: {options.raw_dir} is not a folder")
    if options.jobs < 1:
        raise UsageError(f"--jobs: {options.jobs} must be at least 1")
    if bench.settings.description == OBFUSCATED:
        raise UsageError("--description=obfuscated is for runs (pytest --agent=…): `mlebench prepare` does not use it")
    if bench.settings.has_twins:
        if options.synthetic or options.raw_dir is not None:
            raise UsageError("--data=twin generates the data: leave out --synthetic and --raw-dir")
        competitions = bench.with_data(competitions, options.competition or ())
    how = PrepareOptions(
        raw_dir=options.raw_dir,
        synthetic=SYNTHETIC_SEED if options.synthetic else None,
        verify=not options.skip_verification,
        force=options.force,
        keep_raw=options.keep_raw,
        description=bench.prepare_options["description"],
        check_disk=not options.skip_disk_check,
    )
    seeds = bench.settings.seeds if bench.settings.twin_per_seed else 1
    try:
        found = [_prepare_in(bench, seed, competitions, options, how) for seed in range(seeds)]
    except KeyboardInterrupt:
        logger.error("stopped; finished work is kept. To resume, run the same command again")
        raise
    if options.json:
        common.print_json(found if seeds > 1 else found[0])
    return 1 if any("error" in result for results in found for result in results.values()) else 0


def _prepare_in(
    bench: Bench, seed: int, competitions: list[Competition], options: argparse.Namespace, how: PrepareOptions
) -> dict[str, dict[str, Any]]:
    """Prepare the data of runs with this seed. Returns the results by competition, as JSON values."""
    store = bench.store_of(seed)
    ready = {one.id for one in competitions if store.is_ready(one, **how)}
    with shown(len(competitions)) as reporter:

        def ended(result: PreparationResult) -> None:
            reporter.end(result.competition.id, _result_text(store, result, already=result.competition.id in ready))

        bench.reporter = reporter
        results = bench.prepare_all(
            competitions, jobs=options.jobs, seed=seed, skip_denied=options.skip_denied, ended=ended, **how
        )
    failed = [result for result in results if result.error]
    if failed and len(results) > 1:
        logger.error("\n%d of %d competitions failed:", len(failed), len(results))
        for result in failed:
            logger.error("  %s", (result.error or "").splitlines()[0])
    return {result.competition.id: _as_json(store, result) for result in results}


def _push(options: argparse.Namespace) -> int:
    bench = common.read_bench(options)
    try:
        source = open_source(check(options.url))
    except ValueError as error:
        raise UsageError(f"URL: {error}") from error
    store = bench.store
    chosen = _chosen_or_prepared(options, bench)
    failed = False
    with shown(len(chosen)) as reporter:
        for competition in chosen:
            try:
                count = store.push(competition, source, replace=options.replace, reporter=reporter)
                what = f"{pluralize(count, 'file')} written" if count else "already complete"
                reporter.end(competition.id, f"{competition.id}: pushed to {source.url} ({what})")
            except DataError as error:
                failed = True
                reporter.end(competition.id, str(error))
    return 1 if failed else 0


def _chosen_or_prepared(options: argparse.Namespace, bench: Bench) -> list[Competition]:
    """Return the chosen competitions, or by default those that are prepared. Raises DataError if none are."""
    store, chosen = bench.store, common.selected(options, bench.catalogue)
    if not (options.competition is None and options.split is None and options.list is None):
        return chosen
    if prepared := [competition for competition in chosen if store.dataset(competition).is_prepared]:
        return prepared
    raise DataError(f"nothing is prepared in {store.root}: prepare it first, see `mlebench prepare --help`")


def _result_text(store: DataStore, result: PreparationResult, *, already: bool) -> str:
    if result.error:
        return result.error
    dataset = store.dataset(result.competition)
    source = f" from {dataset.source}" if dataset.source else ""
    place = f"{dataset.prepared}{source}{_verification(store, dataset)}"
    if already:
        return f"{result.competition.id}: already prepared in {place}; --force prepares it again"
    return f"{result.competition.id}: prepared in {place}"


def _as_json(store: DataStore, result: PreparationResult) -> dict[str, Any]:
    if result.error:
        return {"prepared": False, "error": result.error}
    dataset = store.dataset(result.competition)
    return {
        "prepared": True,
        "path": str(dataset.prepared),
        "verified": dataset.is_verified,
        "synthetic": dataset.is_synthetic,
        "twin": dict(dataset.twin),
        "description": dataset.description,
    }


def _verification(store: DataStore, dataset: Dataset) -> str:
    if dataset.twin:
        per_seed = " --twin-per-seed" if dataset.twin.get("run_seed") is not None else ""
        return f" ({TWIN_DATA}; runs use it with --data=twin:{dataset.twin['key']}:{dataset.twin['size']}{per_seed})"
    if dataset.is_synthetic:
        where = ("--raw-dir=FOLDER",) if not dataset.competition.url else ()  # Kaggle does not have its data
        command = store.command("prepare", dataset.competition, *where, "--force")
        return f" (synthetic data; `{command}` replaces it with real data)"
    if dataset.is_verified is False:
        return " (not the reference's data: checksums differ)"
    return " (checksums match)" if dataset.is_verified and dataset.competition.checksums else ""


def _list(options: argparse.Namespace) -> int:
    bench = common.read_bench(options)
    store = bench.store
    common.warn_if_missing(store)
    rows = [_list_row(competition, store) for competition in common.selected(options, bench.catalogue)]
    if options.json:
        common.print_json(rows)
        return 0
    more = ("metric", "direction", *_FIELDS) if options.wide else ()
    heads = ["id", "split", "category", *more, "size", "state"]
    rows = [row | {"size": format_size(row["bytes"]) if row["bytes"] else ""} for row in rows]
    lines = _lines(heads, rows)
    if not options.wide and max(map(len, lines)) > _WIDTH:
        heads.remove("category")
        lines = _lines(heads, rows)
    print("\n".join(lines))
    return 0


def _lines(heads: list[str], rows: list[dict[str, Any]]) -> list[str]:
    return Table(heads, [[str(row[head]) for head in heads] for row in rows]).lines()


def _list_row(competition: Competition, store: DataStore) -> dict[str, Any]:
    dataset = store.dataset(competition)
    state = _state(dataset)
    if holder := store.holder(competition):
        state += f", in use by {holder}"
    return {
        **{name: getattr(competition, name) for name in ("id", "title", "split", "category", "metric", "direction")},
        **{name: getattr(dataset.competition.leaderboard, name) for name in _FIELDS},
        "state": state,
        "description": dataset.description,
        "bench_version": competition.version,
        "is_corrected": competition.is_corrected,
        "changes": list(competition.changes),
        "thresholds": competition.thresholds,
        "bytes": _size(dataset),
        "known_issues": list(competition.known_issues),
    }


def _state(dataset: Dataset) -> str:
    if dataset.is_prepared:
        verified = bool(dataset.is_verified and dataset.competition.checksums)
        known = " (verified)" if verified else " (differs)" if dataset.is_verified is False else ""
        known = " (twin)" if dataset.twin else " (synthetic)" if dataset.is_synthetic else known
        return f"prepared{known}"
    if dataset.competition.source == "bundled":
        return "bundled"
    if dataset.has_raw:
        return "raw"
    if dataset.archive.is_file():
        return "downloaded"
    if dataset.pulling.is_dir():
        return "partly pulled"
    return "partly downloaded" if dataset.partial_archive.is_file() else "absent"


def _size(dataset: Dataset) -> int:
    """Return the bytes on disk. Prepared data, which may be a million files, has its size recorded at preparation."""
    if not dataset.folder.is_dir():
        return 0
    noted = dataset.state.get("bytes") if dataset.is_prepared else None
    paths = (path for path in dataset.folder.iterdir() if noted is None or path != dataset.prepared)
    return files.used_bytes(paths) + (noted or 0)


def _verify(options: argparse.Namespace) -> int:
    if (bundles := bundles_extra()) is not None:
        if options.bundle is not None:
            return int(bundles.verify(options))
        bundles.check_unused(options)
    bench = common.read_bench(options)
    store = bench.store
    chosen = _chosen_or_prepared(options, bench)
    found: dict[str, list[str]] = {}
    reporter = Lines()
    for competition in chosen:
        try:
            found[competition.id] = store.verify(competition, reporter)
        except DataError as error:
            found[competition.id] = [str(error)]
    if options.json:
        common.print_json(found)
    else:
        for id, wrong in found.items():
            print(
                "\n  ".join([f"{id}: {pluralize(len(wrong), 'difference')}", *wrong])
                if wrong
                else f"{id}: no differences"
            )
    return 1 if any(found.values()) else 0


def _remove(options: argparse.Namespace) -> int:
    bench = common.read_bench(options)
    store = bench.store
    common.warn_if_missing(store)
    freed, failed = 0, False
    for competition in common.selected(options, bench.catalogue):
        try:
            size = store.remove(competition, raw_only=options.raw)
        except DataError as error:
            logger.error("%s", error)
            failed = True
        else:
            freed += size
            if size:
                print(f"{competition.id}: freed {format_size(size)}")
    print(f"freed {format_size(freed)} in total")
    return 1 if failed else 0


def _leaderboard(options: argparse.Namespace) -> int:
    chosen = common.selected(options, common.read_bench(options).catalogue)
    downloads = KaggleDownloads()
    downloads.credentials()
    found: dict[str, dict[str, Any]] = {}
    reporter = Lines()
    for competition in chosen:
        try:
            scores = downloads.leaderboard(competition, reporter)
            reporter(Note(f"{competition.id}: {pluralize(len(scores), 'team')}"))  # shows progress: all take minutes
            found[competition.id] = _compare(competition, scores)
        except DataError as error:
            logger.error("%s", error)
            found[competition.id] = {"error": str(error)}
    if options.json:
        common.print_json(found)
    else:
        print("\n".join(_leaderboard_table(found).lines()))
    return 1 if any("error" in comparison for comparison in found.values()) else 0


def _compare(competition: Competition, scores: list[float]) -> dict[str, Any]:
    kaggle = Leaderboard.from_scores(scores, lower_is_better=competition.lower_is_better)
    boards = {"bundled": competition.leaderboard, "kaggle": kaggle}
    values = {which: {name: getattr(board, name) for name in _FIELDS} for which, board in boards.items()}
    # Kaggle ranks by five decimals, and the bundled thresholds have as many.
    is_same = partial(math.isclose, rel_tol=0, abs_tol=0.5e-5 + 1e-12)
    differs = [name for name in _FIELDS if not is_same(values["bundled"][name], values["kaggle"][name])]
    return {**values, "differs": differs}


def _leaderboard_table(found: dict[str, dict[str, Any]]) -> Table:
    rows = []
    for id, comparison in found.items():
        for which in ("bundled", "kaggle") if "error" not in comparison else ():
            scores = [f"{comparison[which][name]:.5f}" for name in _FIELDS[1:]]
            differs = ", ".join(comparison["differs"]) or "nothing"
            label, verdict = (id, "") if which == "bundled" else ("", differs)
            rows.append((label, which, str(comparison[which]["teams"]), *scores, verdict))
    return Table(("competition", "leaderboard", *_FIELDS, "differs"), rows, numbers=frozenset(_FIELDS))
