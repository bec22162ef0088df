"""``mlebench audit``: whether the runs of a group were fair, as far as scanners, and perhaps a judge, can tell."""

from __future__ import annotations

import argparse
import logging
from collections import Counter
from dataclasses import asdict, replace
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_mlebench import factories
from pytest_mlebench.cli import plagiarism
from pytest_mlebench.cli.common import GROUP_HELP, add_options, note_absent, print_json, read_settings
from pytest_mlebench.errors import UsageError, unusable
from pytest_mlebench.units import format_duration, pluralize

if TYPE_CHECKING:
    from pytest_mlebench.audit.calibration import Calibration
    from pytest_mlebench.audit.evidence import Case
    from pytest_mlebench.audit.findings import Finding, Findings, JudgeAccount
    from pytest_mlebench.audit.judge import Judge
    from pytest_mlebench.audit.plagiarism import Pairs
    from pytest_mlebench.runs.group import RunGroup
    from pytest_mlebench.settings import Settings

logger = logging.getLogger("pytest_mlebench")


def add(commands: Any) -> None:
    command = commands.add_parser("audit", help="look for what is unfair in the runs of a group",
        description="Look in the code, logs, model calls and submissions of a run group for what is unfair. What is "
        "found is evidence for a reader, written to audit.json in the group; the exit status is 1 where one finding is "
        "a violation.")  # fmt: skip
    command.add_argument("group", metavar="GROUP", nargs="?", help=GROUP_HELP)
    command.add_argument("--json", action="store_true", help="print the findings as JSON")
    command.add_argument("--calibrate", action="store_true",
        help="instead of a group, audit the bundled cases, of which it is known whether they are fair, and report "
        "precision and recall")  # fmt: skip
    judge = command.add_argument_group("a language model as a judge")
    judge.add_argument("--judge", metavar="PROVIDER/MODEL",
        help="also ask this model about code, messages and logs; what it finds is a reason to look, no more"
        )  # fmt: skip
    judge.add_argument("--judge-budget", metavar="DOLLARS", type=_dollars, default=Decimal(5),
        help="the most that the judge may cost in this call; what it found in earlier ones is not asked again "
        "(default: 5)")  # fmt: skip
    judge.add_argument("--judge-votes", metavar="N", type=_votes, default=3,
        help="how often it is asked about each part; more than half must agree (default: 3)")  # fmt: skip
    plagiarism.add_options(command)
    add_options(command, "--runs-dir", "--agents-dir", "--competitions-dir", "--data-dir", "--llm-providers",
        "--prices", "--llm-retries", "--llm-rpm")  # fmt: skip
    command.set_defaults(command=_audit)


def _dollars(text: str) -> Decimal:
    try:
        value = Decimal(text)
    except InvalidOperation:
        value = Decimal()
    if not (value.is_finite() and 0 < value < 10**9):
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number of dollars")
    return value


def _votes(text: str) -> int:
    if not (text.isdecimal() and text.isascii() and 1 <= int(text[:3]) <= 15):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 15")
    return int(text)


def _audit(options: argparse.Namespace) -> int:
    if options.calibrate == (options.group is not None):
        raise UsageError("audit takes either a GROUP or --calibrate")
    if options.calibrate and options.plagiarism:
        raise UsageError("--plagiarism is for a GROUP, not for --calibrate")
    return _calibrate(options) if options.calibrate else _audit_group(options, options.group)


def _audit_group(options: argparse.Namespace, name: str) -> int:
    from pytest_mlebench.audit.findings import Verdict
    from pytest_mlebench.audit.run import runs_of
    from pytest_mlebench.audit.scanners import audit
    from pytest_mlebench.runs.group import find_group, read_group

    settings = read_settings(options)
    group = read_group(find_group(name, settings.runs_dir))
    for why in group.broken:
        logger.warning("warning: %s", why)
    catalogue = factories.catalogue(replace(settings, bench_version=group.version.removeprefix("v")))
    store = factories.data_store(settings)
    note_absent(store)
    here = {id: store.dataset(catalogue[id]) for id in {r.competition_id for r in group.records} if id in catalogue}
    runs = runs_of(
        group,
        lambda id: catalogue[id] if id in here else None,
        lambda id: own if (own := here.get(id)) is not None and own.is_prepared else None,
    )
    judge = _judge(options, settings, group.folder)
    pairs: Pairs | None = None
    cases: list[Case] = []
    if judge is not None:
        from pytest_mlebench.audit.evidence import collecting

        runs = collecting(runs, cases)
    earlier = _earlier(group)
    compared = plagiarism.comparison(options, settings, catalogue, store)
    if compared is None:
        scanned = plagiarism.with_earlier(audit(runs), earlier)
    else:
        with compared:
            scanned, pairs = plagiarism.with_pairs(audit(plagiarism.collecting(runs, compared)), compared, group)
    found = _with_earlier_judge(scanned, earlier)
    path = _write(found, group.folder)
    if judge is not None:
        found = _judged(scanned, judge, cases)
        _write(found, group.folder)
    if pairs is not None and found.plagiarism is not None:
        plagiarism.warn_of_missing(found.plagiarism.notebooks, store.root, is_default=store.is_default)
    if options.json:
        print_json({"verdicts": found.verdicts, **asdict(found)})
    else:
        _show(group, found)
        plagiarism.show(found, pairs, options)
    logger.info("%s", path)
    if found.judge is not None and found.judge.interrupted and judge is not None:
        raise KeyboardInterrupt
    return 1 if Verdict.violation in found.verdicts.values() else 0


def _write(found: Findings, folder: Path) -> Path:
    try:
        return found.write(folder)
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {unusable(error)}") from error


def _judge(options: argparse.Namespace, settings: Settings, folder: Path) -> Judge | None:
    """The judge of ``--judge``, whose ledger is in this folder; None without one. Raises UsageError."""
    if options.judge is None:
        return None
    from pytest_mlebench.audit.judge import FOLDER, Judge, JudgeOptions

    chosen = JudgeOptions(model=options.judge, budget=options.judge_budget, votes=options.judge_votes)
    return Judge(chosen, factories.gateway_settings(settings), folder / FOLDER)


def _judged(found: Findings, judge: Judge, cases: list[Case]) -> Findings:
    parts = pluralize(sum(len(case.chunks) for case in cases), "part")
    logger.info("the judge reads %s of %s", parts, pluralize(len(cases), "run"))
    opinions, account = judge(cases)
    return replace(found, findings=(*found.findings, *opinions), judge=account)


def _earlier(group: RunGroup) -> Findings | None:
    """What an audit before this one found; None where there was none, or it cannot be read."""
    from pytest_mlebench.audit.findings import read_findings

    try:
        return read_findings(group.folder)
    except (OSError, ValueError):
        return None


def _with_earlier_judge(found: Findings, earlier: Findings | None) -> Findings:
    """An audit without a judge keeps what one found before: it has been paid for."""
    from pytest_mlebench.audit.judge import SCANNER

    if earlier is None or earlier.judge is None:
        return found
    kept = [own for own in earlier.findings if own.scanner == SCANNER and own.run_id in found.runs]
    unread = {*earlier.judge.incomplete, *(set(found.runs) - set(earlier.runs))}
    account = replace(earlier.judge, incomplete=tuple(sorted(unread & set(found.runs))))
    return replace(found, findings=(*found.findings, *kept), judge=account)


def _show(group: RunGroup, found: Findings) -> None:
    from pytest_mlebench.audit.findings import Verdict
    from pytest_mlebench.reports.tables import Section, terminal_width

    for record in group.records:
        own = found.of(record.run_id)
        if own:
            title = f"{found.verdicts[record.run_id]}: {record.agent} on {record.competition_id}, seed {record.seed}"
            print(Section(title, remarks=[_line(finding) for finding in own]).text(terminal_width()) + "\n")
    counts = Counter(found.verdicts.values())
    print(f"{pluralize(len(found.runs), 'run')}: {', '.join(f'{counts[verdict]} {verdict}' for verdict in Verdict)}")
    if found.judge is not None:
        print(_account(found.judge))


def _line(finding: Finding) -> str:
    place = finding.file + ("" if finding.line is None else f":{finding.line}")
    place += "" if finding.call is None else f" call {finding.call}"
    place += "" if finding.at is None else f" after {format_duration(finding.at)}"
    quote = f": {finding.quote}" if finding.quote else ""
    return f"{finding.verdict} ({finding.scanner}): {finding.text} [{place.strip()}]{quote}"


def _account(judge: JudgeAccount) -> str:
    cost = "an unknown cost" if judge.cost is None else f"${judge.cost:.4f} of ${judge.budget:g}"
    text = f"judge {judge.model}: {judge.parts_judged} of {pluralize(judge.parts, 'part')} judged by "
    text += f"{pluralize(judge.votes, 'vote')} each, {cost}, {pluralize(judge.calls, 'call')}"
    text += f"; {judge.votes_kept} of the votes were given in earlier calls" if judge.votes_kept else ""
    for count, what in (
        (judge.unanswered, "answer without the right form"),
        (judge.failed, "call failed"),
        (judge.quotes_dropped, "quote that does not occur"),
    ):
        text += f"; {count} × {what}" if count else ""
    if judge.incomplete:
        text += f"\nnot judged whole ({_why(judge)}): {', '.join(judge.incomplete[:10])}"
        text += f" and {len(judge.incomplete) - 10} more" if len(judge.incomplete) > 10 else ""
    if _is_cut_short(judge):
        text += "\nthe same command asks for what is missing, and for nothing twice"
    return text


def _is_cut_short(judge: JudgeAccount) -> bool:
    return bool(judge.incomplete) and (judge.interrupted or judge.budget_ended or judge.failed > 0)


def _why(judge: JudgeAccount) -> str:
    if judge.interrupted:
        return "interrupted"
    if judge.budget_ended:
        return "the budget ended"
    if judge.failed:
        return f"calls failed, the last: {judge.last_error}" if judge.last_error else "calls failed"
    return "see above, or they left too much"


def _calibrate(options: argparse.Namespace) -> int:
    import tempfile

    from pytest_mlebench.audit.calibration import calibrate

    settings = read_settings(options)
    with tempfile.TemporaryDirectory(prefix="mlebench-calibrate-") as folder:
        judge = _judge(options, settings, Path(folder))
        found = calibrate(Path(folder), judge)
    if options.json:
        print_json(_figures(found))
    else:
        _show_calibration(found)
    return 0


def _figures(found: Calibration) -> dict[str, Any]:
    rates = [
        {"method": method, "category": category, "half": half, **asdict(counts)}
        for (method, category, half), counts in found.counts.items()
    ]
    judge = None if found.judge is None else asdict(found.judge)
    return {"counts": rates, "cases": [asdict(case) for case in found.results], "judge": judge}


def _show_calibration(found: Calibration) -> None:
    from pytest_mlebench.reports.tables import Section, Table, terminal_width

    heads = ["flagged by", "category", "half", "precision", "95 %", "n", "recall", "95 %", "n"]
    rows = [
        [method, category, half, *_share(c.found, c.found + c.false_alarms), *_share(c.found, c.found + c.missed)]
        for (method, category, half), c in found.counts.items()
    ]
    wrong = [
        f"{'missed' if case.label == 'unfair' else 'false alarm'} ({method}): {case.name} ({case.category}): {case.why}"
        for case in found.results
        for method, flagged in case.flagged.items()
        if method in ("scanners", *(["judge"] if found.judge else ())) and flagged != (case.label == "unfair")
    ]
    title = f"{pluralize(len(found.results), 'case')}: precision and recall, with intervals of 95 %"
    print(Section(title, [Table(heads, rows)], wrong).text(terminal_width()))
    if found.judge is not None:
        print(_account(found.judge))


def _share(part: int, whole: int) -> tuple[str, str, str]:
    from pytest_mlebench.results.statistics import wilson_interval

    if not whole:
        return "-", "", ""
    percent = 100 * part / whole
    return f"{percent:.0f} %", str(wilson_interval(percent, whole)), f"{part}/{whole}"
