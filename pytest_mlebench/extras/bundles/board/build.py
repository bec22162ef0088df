"""``Bench.board``: reads, verifies and audits bundles one by one, and builds a leaderboard of them."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from urllib.parse import urlencode

from pytest_mlebench.bench import Bench
from pytest_mlebench.errors import DataError, UsageError, reason
from pytest_mlebench.extras.bundles import verify as verification
from pytest_mlebench.extras.bundles.api import group_files
from pytest_mlebench.extras.bundles.board.rows import Rejected, Row, published_rows, ranked, rows_of
from pytest_mlebench.extras.bundles.board.site import Board, see_writable, write_site
from pytest_mlebench.extras.bundles.bundle import MAX_BYTES, SUFFIX, Bundle, is_bundle, read_bundle
from pytest_mlebench.extras.bundles.card import Card, CheckResult
from pytest_mlebench.io.files import AnyPath, expanded
from pytest_mlebench.io.progress import Step
from pytest_mlebench.io.units import first, listed, one_line, pluralize
from pytest_mlebench.records.group import RunGroup
from pytest_mlebench.records.record import MANIFEST
from pytest_mlebench.reports.page import page
from pytest_mlebench.reports.sections import heading
from pytest_mlebench.results import read_group
from pytest_mlebench.results.overview import overview, published_results
from pytest_mlebench.runs.regrade import Regrader

TITLE = "Leaderboard"
_SHOWN = 10
"""Maximum reasons that the page lists for a bundle that is not shown."""
_TEXT = 300
_MOST_AGENTS = 50
"""Maximum agents of one bundle."""
_FREE_TEXT = ("--title", "--note")
"""Options with free text of the maker."""


@dataclass(frozen=True, kw_only=True)
class _Entry:
    """The result for one file."""

    rejected: Rejected | None = None
    card: Card | None = None
    rows: tuple[Row, ...] = ()
    run_ids: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Run ids by agent."""
    report: str = ""


def board(
    bench: Bench,
    bundles: Iterable[AnyPath],
    out: AnyPath,
    *,
    title: str = TITLE,
    max_bytes: int = MAX_BYTES,
    allowed_signers: AnyPath | None = None,
) -> tuple[list[Row], list[Rejected]]:
    """Write a leaderboard as a static site to the folder ``out``. Return its rows, and the bundles without rows.

    ``bundles`` are files, and folders that contain bundles. Each is verified with the data of this machine and audited;
    one that fails is listed with the reason. ``max_bytes`` is the maximum unpacked size of a bundle. With
    ``allowed_signers``, a file of keys, only bundles that one of them signed are shown. Raises UsageError if a path
    does not exist or has no bundle, or if ``out`` is a folder with other files.
    """
    target = expanded(out)
    files = sorted(set(_files(map(expanded, bundles))), key=lambda file: (file.name, file))
    see_writable(target)
    signers = None if allowed_signers is None else expanded(allowed_signers)
    if signers is not None and not signers.is_file():
        raise UsageError(f"--allowed-signers: file not found: {signers}")
    entries = _with_shared_runs(_entries(bench, files, max_bytes, signers))
    rows = ranked([*(row for entry in entries for row in entry.rows), *published_rows(published_results())])
    rejected = [entry.rejected for entry in entries if entry.rejected is not None]
    site = Board(
        title=title,
        rows=rows,
        rejected=rejected,
        cards={entry.card.digest: entry.card for entry in entries if entry.card is not None},
        reports={entry.card.digest: entry.report for entry in entries if entry.card is not None and entry.report},
    )
    write_site(site, target)
    return rows, rejected


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield the bundles that a user names: all named files, and files in folders that look like bundles."""
    for path in paths:
        if path.is_file():
            yield path
        elif not path.is_dir():
            raise UsageError(f"file or folder not found: {path}")
        elif (path / MANIFEST).is_file():
            raise UsageError(f"{path} is a run group: pack it with `mlebench bundle`, and name the bundle")
        else:
            try:
                inside = sorted(file for file in path.iterdir() if file.is_file() and not file.name.startswith("."))
            except OSError as error:
                raise UsageError(f"{path} cannot be read: {reason(error)}") from error
            found = [file for file in inside if file.name.endswith(SUFFIX) or is_bundle(file)]
            if not found:
                raise UsageError(f"{path} has no bundle: create one with `mlebench bundle`")
            yield from found


def _with_shared_runs(entries: list[_Entry]) -> list[_Entry]:
    """Add a remark to rows whose runs are also in other bundles, since they may repeat the same result."""

    def marked(entry: _Entry, row: Row) -> Row:
        ids = entry.run_ids.get(row.agent, frozenset())
        digests = sorted(
            other.card.digest[:12]
            for other in entries
            if other is not entry and other.card is not None and ids & other.run_ids.get(row.agent, frozenset())
        )
        text = f"some of its runs are in {pluralize(len(digests), 'other bundle')}: {listed(digests)}"
        return replace(row, remarks=(*row.remarks, text)) if digests else row

    return [replace(entry, rows=tuple(marked(entry, row) for row in entry.rows)) for entry in entries]


def _entries(bench: Bench, files: list[Path], max_bytes: int, allowed_signers: Path | None) -> list[_Entry]:
    """Return one entry for each file, but only one for each digest: one that is shown, if there is any."""
    graders, hide = cache(bench.regrader), partial(_hide, bench.store.root)
    by_digest: dict[str, _Entry] = {}
    unread: list[_Entry] = []
    for number, file in enumerate(files, 1):
        bench.reporter(Step(_name(file), f"verifying it ({number} of {len(files)})"))
        with tempfile.TemporaryDirectory(prefix="mlebench-board-") as scratch:
            folder = Path(scratch).resolve()
            try:
                bundle = read_bundle(file, folder, max_bytes=max_bytes)
            except (DataError, OSError) as error:
                text = hide(reason(error).replace(f"{file} ", "it "))
                unread.append(_Entry(rejected=Rejected(file=_name(file), verdict="cannot be read", reasons=(text,))))
                continue
            known = by_digest.get(bundle.digest)
            if known is None or not known.rows:
                by_digest[bundle.digest] = _entry(file, bundle, graders, hide, allowed_signers)
    return [*(by_digest[digest] for digest in sorted(by_digest)), *unread]


def _name(file: Path) -> str:
    return one_line(file.name)[:_TEXT]


def _hide(data_dir: Path, text: str) -> str:
    """Return a text on one line without paths of this machine. Temporary ones change each time, and others reveal who
    built the site."""
    text = text.replace(str(data_dir), "the data folder")
    for parent in {tempfile.gettempdir(), str(Path(tempfile.gettempdir()).resolve())}:
        text = re.sub(rf"{re.escape(parent)}/[^\s/:]+/", "", text)
    return one_line(text)[:_TEXT]


def _entry(
    file: Path,
    bundle: Bundle,
    graders: Callable[[str], Regrader],
    hide: Callable[[str], str],
    allowed_signers: Path | None,
) -> _Entry:
    card: Card | None = None
    try:
        found = verification.verify(bundle, graders, files=group_files, allowed_signers=allowed_signers)
        card = _without_paths(found, hide)
        if (why := _why_not(card)) is None:
            return _shown(bundle, card, graders)
    except Exception as error:  # a bad bundle must not hide the others
        text = str(error) if isinstance(error, DataError) else f"{type(error).__name__}: {error}"
        why = "its results cannot be shown", [text]
    verdict, reasons = why
    rejected = Rejected(
        file=_name(file),
        digest=bundle.digest,
        run_group=bundle.index.run_group[:_TEXT],
        verdict=hide(verdict),
        reasons=tuple(map(hide, first(reasons, _SHOWN))),
    )
    return _Entry(rejected=rejected, card=card)


def _shown(bundle: Bundle, card: Card, graders: Callable[[str], Regrader]) -> _Entry:
    if card.findings is not None:
        card.findings.write(bundle.folder)  # the report shows this audit, not one in the bundle
    group = _without_words(read_group(bundle.folder))
    if len(group.agents) > _MOST_AGENTS:
        raise DataError(f"it has {len(group.agents)} agents, but at most {_MOST_AGENTS} are shown")
    rows = tuple(replace(row, report=_address(row)) for row in rows_of(group, card, graders(group.version)))
    run_ids = {
        agent: frozenset(record.run_id for record in group.records if record.agent == agent) for agent in group.agents
    }
    view = overview([group])
    top = heading(view)
    note = f"From the bundle {card.digest[:12]}, verified for a leaderboard: {card.headline}."
    report = page(view, replace(top, caveats=[note, *top.caveats]))
    return _Entry(card=card, rows=rows, run_ids=run_ids, report=report)


def _why_not(card: Card) -> tuple[str, list[str]] | None:
    """Return why a bundle has no rows, as a verdict and reasons; None if it has rows."""
    grades = next((c for c in card.checks if c.name == "grades"), None)
    if card.result is CheckResult.differs:
        failed = [c for c in card.checks if c.result is CheckResult.differs]
        return card.headline, [f"{c.name}: {text}" for c in failed for text in (c.reasons or (c.detail,))]
    if grades is None or grades.result is not CheckResult.verified:
        reasons = () if grades is None else grades.reasons
        return "its scores cannot be checked", [f"grades: {text}" for text in reasons] or ["it has no runs"]
    if card.violations and card.findings is not None:
        found = [one for one in card.findings.findings if one.verdict == "violation"]
        return card.headline, [f"{one.run_id}: {one.text}{f' ({one.file})' if one.file else ''}" for one in found]
    return None


def _without_paths(card: Card, hide: Callable[[str], str]) -> Card:
    return replace(
        card,
        checks=tuple(
            replace(part, detail=hide(part.detail), reasons=tuple(map(hide, part.reasons))) for part in card.checks
        ),
        not_checked=tuple(map(hide, card.not_checked)),
        warnings=tuple(map(hide, card.warnings)),
        profile=tuple(replace(part, detail=hide(part.detail)) for part in card.profile),
    )


def _without_words(group: RunGroup) -> RunGroup:
    """Return the group without title and note, which could claim anything at the top of a report."""
    options = {name: value for name, value in group.manifest.options.items() if name not in _FREE_TEXT}
    return replace(group, manifest=replace(group.manifest, options=options))


def _address(row: Row) -> str:
    whole = row.split.startswith("all")
    return urlencode({"agent": row.agent} | ({} if whole else {"split": row.split}))
