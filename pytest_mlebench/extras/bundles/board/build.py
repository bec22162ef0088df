"""``Bench.board``: bundles are read one after the other, verified and audited, and become the rows of a leaderboard."""

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
from pytest_mlebench.records.group import RunGroup, read_group
from pytest_mlebench.records.record import MANIFEST
from pytest_mlebench.reports.page import page
from pytest_mlebench.reports.sections import heading
from pytest_mlebench.results.overview import overview, published_results
from pytest_mlebench.runs.regrade import Regrader

TITLE = "Leaderboard"
_SHOWN = 10
"""Reasons that the page lists for a bundle that is not shown."""
_TEXT = 300
_MOST_AGENTS = 50
"""Agents of one bundle."""
_GIVEN = ("--title", "--note")
"""Options that hold a maker's words."""


@dataclass(frozen=True, kw_only=True)
class _Entry:
    """What became of one file."""

    rejected: Rejected | None = None
    card: Card | None = None
    rows: tuple[Row, ...] = ()
    run_ids: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By agent."""
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
    """Write a leaderboard as a static site to the folder ``out``; returns its rows, and the bundles without rows.

    ``bundles`` are files, and folders whose files are taken. Each is verified with the data of this machine and
    audited; one that fails is listed with the reason. ``max_bytes`` is the most that one may unpack to. With
    ``allowed_signers``, a file of keys, only bundles that one of these has signed are shown. Raises UsageError for
    paths that are no bundles, and where ``out`` is a folder that is not such a site.
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
    """The bundles that a user names: files as they are, of folders those that are bundles, or are called like one."""
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
                raise UsageError(f"{path} has no bundle: `mlebench bundle` makes one")
            yield from found


def _with_shared_runs(entries: list[_Entry]) -> list[_Entry]:
    """The entries, whose rows say which other bundles have runs of theirs: the same result may be there twice."""

    def marked(entry: _Entry, row: Row) -> Row:
        own = entry.run_ids.get(row.agent, frozenset())
        digests = sorted(
            other.card.digest[:12]
            for other in entries
            if other is not entry and other.card is not None and own & other.run_ids.get(row.agent, frozenset())
        )
        text = f"runs of it are in {pluralize(len(digests), 'other bundle')}: {listed(digests)}"
        return replace(row, remarks=(*row.remarks, text)) if digests else row

    return [replace(entry, rows=tuple(marked(entry, row) for row in entry.rows)) for entry in entries]


def _entries(bench: Bench, files: list[Path], max_bytes: int, allowed_signers: Path | None) -> list[_Entry]:
    """One entry for each file, but one for each digest: the one that is shown, if there is any."""
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
    """A text in one line without paths of this machine: temporary ones differ each time, and others tell who built the
    site."""
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
    except Exception as error:  # whatever is in one bundle, the others are shown
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
        card.findings.write(bundle.folder)  # the report shows this audit, whatever one was in the bundle
    group = _without_words(read_group(bundle.folder))
    if len(group.agents) > _MOST_AGENTS:
        raise DataError(f"it has {len(group.agents)} agents, and at most {_MOST_AGENTS} are shown")
    rows = tuple(replace(row, report=_address(row)) for row in rows_of(group, card, graders(group.version)))
    run_ids = {
        agent: frozenset(record.run_id for record in group.records if record.agent == agent) for agent in group.agents
    }
    return _Entry(card=card, rows=rows, run_ids=run_ids, report=_report(group, card))


def _why_not(card: Card) -> tuple[str, list[str]] | None:
    """Why a bundle has no rows: a verdict, and the reasons; None if it has some."""
    grades = next((own for own in card.checks if own.name == "grades"), None)
    if card.result is CheckResult.differs:
        failed = [own for own in card.checks if own.result is CheckResult.differs]
        return card.headline, [f"{own.name}: {text}" for own in failed for text in (own.reasons or (own.detail,))]
    if grades is None or grades.result is not CheckResult.verified:
        own = () if grades is None else grades.reasons
        return "its scores cannot be checked", [f"grades: {text}" for text in own] or ["it has no runs"]
    if card.violations and card.findings is not None:
        found = [own for own in card.findings.findings if own.verdict == "violation"]
        return card.headline, [f"{own.run_id}: {own.text}{f' ({own.file})' if own.file else ''}" for own in found]
    return None


def _without_paths(card: Card, hide: Callable[[str], str]) -> Card:
    return replace(
        card,
        checks=tuple(
            replace(own, detail=hide(own.detail), reasons=tuple(map(hide, own.reasons))) for own in card.checks
        ),
        not_checked=tuple(map(hide, card.not_checked)),
        warnings=tuple(map(hide, card.warnings)),
        profile=tuple(replace(own, detail=hide(own.detail)) for own in card.profile),
    )


def _without_words(group: RunGroup) -> RunGroup:
    """The group without title and note, which could claim anything at the top of a report."""
    options = {name: value for name, value in group.manifest.options.items() if name not in _GIVEN}
    return replace(group, manifest=replace(group.manifest, options=options))


def _address(row: Row) -> str:
    whole = row.split.startswith("all")
    return urlencode({"agent": row.agent} | ({} if whole else {"split": row.split}))


def _report(group: RunGroup, card: Card) -> str:
    view = overview([group])
    top = heading(view)
    note = f"From the bundle {card.digest[:12]}, verified for a leaderboard: {card.headline}."
    return page(view, replace(top, caveats=[note, *top.caveats]))
