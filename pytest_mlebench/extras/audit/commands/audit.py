"""``mlebench audit``: searches the runs of a group for unfair behaviour, with scanners and optionally a judge."""

from __future__ import annotations

import argparse
import logging
import shlex
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from pytest_mlebench.bench import Bench
from pytest_mlebench.cli.common import (
    GROUP_OR_BUNDLE_HELP,
    add_options,
    print_json,
    read_bench,
    user_path,
    warn_if_missing,
)
from pytest_mlebench.data.store import DataStore
from pytest_mlebench.errors import UsageError, reason
from pytest_mlebench.extras.audit.api import PlagiarismOptions, audit
from pytest_mlebench.extras.audit.calibration import Calibration, calibrate
from pytest_mlebench.extras.audit.judge import FOLDER, MAX_VOTES, Judge, JudgeOptions
from pytest_mlebench.extras.audit.page import account_text, pairs_text
from pytest_mlebench.extras.audit.plagiarism import Pairs
from pytest_mlebench.io.units import first, format_duration, pluralize
from pytest_mlebench.io.values import read_json
from pytest_mlebench.records.group import RunGroup
from pytest_mlebench.reports.tables import Section, Table, terminal_width
from pytest_mlebench.results.findings import FINDINGS, PAIRS, Finding, Findings, JudgeAccount, NotebooksRead, Verdict
from pytest_mlebench.results.statistics import wilson_interval

logger = logging.getLogger("pytest_mlebench")


def add(commands: Any) -> None:
    command = commands.add_parser("audit", help="look for unfair behaviour in the runs of a group",
        description="Search the code, logs, model calls and submissions of a run group for unfair behaviour. The "
        "findings are evidence for a reader, and are written to audit.json in the group. The exit status is 1 if any "
        "finding is a violation.")  # fmt: skip
    command.add_argument("group", metavar="GROUP", nargs="?", help=GROUP_OR_BUNDLE_HELP)
    command.add_argument("--json", action="store_true", help="print the findings as JSON")
    command.add_argument("--calibrate", action="store_true",
        help="instead of a group, audit the bundled cases, which are labelled fair or unfair, and report "
        "precision and recall")  # fmt: skip
    judge = command.add_argument_group("a language model as a judge")
    judge.add_argument("--judge", metavar="PROVIDER/MODEL",
        help="also ask this model about code, messages and logs; its findings are only reasons to look"
        )  # fmt: skip
    judge.add_argument("--judge-budget", metavar="DOLLARS", type=_dollars, default=Decimal(5),
        help="maximum cost of the judge in this call, in US dollars; the votes of earlier calls are reused "
        "(default: 5)")  # fmt: skip
    judge.add_argument("--judge-votes", metavar="N", type=_votes, default=3,
        help="number of votes on each part; more than half must agree (default: 3)")  # fmt: skip
    _add_plagiarism(command)
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
    if not (text.isdecimal() and text.isascii() and len(text) < 4 and 1 <= int(text) <= MAX_VOTES):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {MAX_VOTES}")
    return int(text)


def _audit(options: argparse.Namespace) -> int:
    if options.calibrate == (options.group is not None):
        raise UsageError("audit takes either a GROUP or --calibrate")
    if options.calibrate and options.plagiarism:
        raise UsageError("--plagiarism needs a GROUP: it does not apply to --calibrate")
    if options.calibrate:
        return _calibrate(options)
    bench = read_bench(options)
    group = bench.group(options.group)
    warn_if_missing(bench.store)
    judge, is_bundle = _judge(options), bench.is_unpacked(group)
    if judge is not None and is_bundle:
        raise UsageError("--judge stores its votes in the run group: unpack the bundle with `mlebench unbundle` first")
    if is_bundle:  # an audit keeps earlier findings of a judge, but these are its maker's
        (group.folder / FINDINGS).unlink(missing_ok=True)
    found = audit(bench, group, judge=judge, plagiarism=_compared_with(options, bench))
    if options.plagiarism and found.plagiarism is not None:
        _warn_of_missing(found.plagiarism.notebooks, bench.store)
    if options.json:
        print_json({"verdicts": found.verdicts, **asdict(found)})
    else:
        _show(group, found)
        if found.plagiarism is not None:
            print(account_text(found.plagiarism))
        if options.pairs and (pairs := read_json(group.folder / PAIRS, Pairs).pairs):
            print(f"\n{pairs_text(pairs)}")
    if is_bundle:
        logger.info("not saved, because bundles are never changed: unpack it with `mlebench unbundle` first")
    else:
        logger.info("%s", group.folder / FINDINGS)
    if found.judge is not None and found.judge.interrupted and judge is not None:
        raise KeyboardInterrupt
    return 1 if Verdict.violation in found.verdicts.values() else 0


def _judge(options: argparse.Namespace) -> JudgeOptions | None:
    if options.judge is None:
        return None
    return JudgeOptions(model=options.judge, budget=options.judge_budget, votes=options.judge_votes)


def _show(group: RunGroup, found: Findings) -> None:
    for record in group.records:
        findings = found.of(record.run_id)
        if findings:
            title = f"{found.verdicts[record.run_id]}: {record.agent} on {record.competition_id}, seed {record.seed}"
            print(Section(title, remarks=[_line(finding) for finding in findings]).text(terminal_width()) + "\n")
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
    text += f"; {judge.votes_kept} of the votes are from earlier calls" if judge.votes_kept else ""
    counts = {"malformed answer": judge.unanswered, "failed call": judge.failed}
    counts["quote that does not occur"] = judge.quotes_dropped
    text += "".join(f"; {count} × {what}" for what, count in counts.items() if count)
    if judge.incomplete:
        text += f"\nnot judged completely ({_why(judge)}): {', '.join(first(judge.incomplete, 10))}"
        if judge.interrupted or judge.budget_ended or judge.failed:
            text += "\nto judge the rest, run the same command again: the votes so far are reused"
    return text


def _why(judge: JudgeAccount) -> str:
    if judge.interrupted:
        return "interrupted"
    if judge.budget_ended:
        return "the budget is exhausted"
    if judge.failed:
        return f"calls failed, the last: {judge.last_error}" if judge.last_error else "calls failed"
    return "see above, or they left too much to read"


def _add_plagiarism(command: argparse.ArgumentParser) -> None:
    group = command.add_argument_group("plagiarism")
    group.add_argument("--plagiarism", action="store_true",
        help="also compare the code of runs with public notebooks (which `mlebench kernels` downloads) and with the "
        "code of other agents on the same competition")  # fmt: skip
    group.add_argument("--with-group", metavar="GROUP", action="append", default=[],
        help="also compare with the runs of this group; repeatable")  # fmt: skip
    group.add_argument("--boilerplate", metavar="PATH", type=user_path, action="append", default=[],
        help="a file or folder of code to ignore because agents were given it; repeatable")  # fmt: skip
    group.add_argument("--pairs", action="store_true", help="print similar code side by side")


def _compared_with(options: argparse.Namespace, bench: Bench) -> PlagiarismOptions | None:
    """Return the options of a comparison; None without ``--plagiarism``. Raises UsageError."""
    if not options.plagiarism:
        for name in ("with_group", "boilerplate", "pairs"):
            if getattr(options, name):
                raise UsageError(f"--{name.replace('_', '-')} needs --plagiarism")
        return None

    for path in options.boilerplate:
        try:
            path.stat()
        except OSError as error:
            raise UsageError(f"--boilerplate: {path} cannot be read: {reason(error)}") from error
    try:
        groups = list(map(bench.group, options.with_group))
    except UsageError as error:
        raise UsageError(f"--with-group: {error}") from error
    return PlagiarismOptions(groups=groups, boilerplate=options.boilerplate)


def _warn_of_missing(notebooks: Mapping[str, NotebooksRead], store: DataStore) -> None:
    missing = {id: counted for id, counted in notebooks.items() if counted.missing}
    if missing:
        chosen = " ".join(f"-c {id}" for id in missing)
        place = "" if store.is_default else f" --data-dir {shlex.quote(str(store.root))}"
        counts = ", ".join(f"{id} ({counted.missing} of {counted.listed})" for id, counted in missing.items())
        logger.warning(
            "warning: notebooks are missing: %s; download them with `mlebench kernels %s%s`", counts, chosen, place
        )
    if unlisted := [id for id, counted in notebooks.items() if not counted.listed]:
        logger.warning("no public notebooks are known for %s", ", ".join(unlisted))


def _calibrate(options: argparse.Namespace) -> int:
    bench, judge = read_bench(options), _judge(options)
    with tempfile.TemporaryDirectory(prefix="mlebench-calibrate-") as scratch:
        folder = Path(scratch)
        found = calibrate(folder, None if judge is None else Judge(judge, bench.gateway, folder / FOLDER))
    if options.json:
        values = asdict(found)
        counts = [
            {"method": method, "category": category, "half": half, **asdict(counted)}
            for (method, category, half), counted in found.counts.items()
        ]
        print_json({"counts": counts, "cases": values["results"], "judge": values["judge"]})
    else:
        _show_calibration(found)
    return 0


def _show_calibration(found: Calibration) -> None:
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
    title = f"{pluralize(len(found.results), 'case')}: precision and recall, with 95 % intervals"
    print(Section(title, [Table(heads, rows)], wrong).text(terminal_width()))
    if found.judge is not None:
        print(_account(found.judge))


def _share(part: int, whole: int) -> tuple[str, str, str]:
    if not whole:
        return "-", "", ""
    percent = 100 * part / whole
    return f"{percent:.0f} %", str(wilson_interval(percent, whole)), f"{part}/{whole}"
