"""``mlebench audit``: whether the runs of a group were fair, as far as scanners can tell."""

from __future__ import annotations

import argparse
import logging
from collections import Counter
from typing import TYPE_CHECKING, Any

from pytest_mlebench import factories
from pytest_mlebench.cli.common import GROUP_HELP, add_options, print_json, read_settings
from pytest_mlebench.errors import UsageError, unusable
from pytest_mlebench.units import format_duration, pluralize

if TYPE_CHECKING:
    from pytest_mlebench.audit.findings import Finding, Findings
    from pytest_mlebench.runs.group import RunGroup

logger = logging.getLogger("pytest_mlebench")


def add(commands: Any) -> None:
    command = commands.add_parser("audit", help="look for what is unfair in the runs of a group",
        description="Look in the code, logs, model calls and submissions of a run group for what is unfair. What is "
        "found is evidence for a reader, written to audit.json in the group; the exit status is 1 where one finding is "
        "a violation.")  # fmt: skip
    command.add_argument("group", metavar="GROUP", help=GROUP_HELP)
    command.add_argument("--json", action="store_true", help="print the findings as JSON")
    add_options(command, "--runs-dir", "--competitions-dir", "--data-dir")
    command.set_defaults(command=_audit)


def _audit(options: argparse.Namespace) -> int:
    from dataclasses import asdict, replace

    from pytest_mlebench.audit.findings import Verdict
    from pytest_mlebench.audit.scanners import audit
    from pytest_mlebench.runs.group import find_group, read_group

    settings = read_settings(options)
    group = read_group(find_group(options.group, settings.runs_dir))
    for why in group.broken:
        logger.warning("warning: %s", why)
    catalogue = factories.catalogue(replace(settings, bench_version=group.version.removeprefix("v")))
    store = factories.data_store(settings)
    here = {id: store.dataset(catalogue[id]) for id in {r.competition_id for r in group.records} if id in catalogue}
    found = audit(
        group,
        lambda id: catalogue[id] if id in here else None,
        lambda id: own if (own := here.get(id)) is not None and own.is_prepared else None,
    )
    try:
        path = found.write(group.folder)
    except OSError as error:
        raise UsageError(f"{group.folder} cannot be written: {unusable(error)}") from error
    if options.json:
        print_json({"verdicts": found.verdicts, **asdict(found)})
    else:
        _show(group, found)
    logger.info("%s", path)
    return 1 if Verdict.violation in found.verdicts.values() else 0


def _show(group: RunGroup, found: Findings) -> None:
    from pytest_mlebench.audit.findings import Verdict
    from pytest_mlebench.reports.tables import Section

    for record in group.records:
        own = found.of(record.run_id)
        if own:
            title = f"{found.verdicts[record.run_id]}: {record.agent} on {record.competition_id}, seed {record.seed}"
            print(Section(title, remarks=[_line(finding) for finding in own]).text() + "\n")
    counts = Counter(found.verdicts.values())
    print(f"{pluralize(len(found.runs), 'run')}: {', '.join(f'{counts[verdict]} {verdict}' for verdict in Verdict)}")


def _line(finding: Finding) -> str:
    place = finding.file + ("" if finding.line is None else f":{finding.line}")
    place += "" if finding.call is None else f" call {finding.call}"
    place += "" if finding.at is None else f" after {format_duration(finding.at)}"
    quote = f": {finding.quote}" if finding.quote else ""
    return f"{finding.verdict} ({finding.scanner}): {finding.text} [{place.strip()}]{quote}"
