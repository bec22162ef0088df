"""``CHANGES-v2.md``: the changes of version 2, generated from the competitions' folders and the probes.

``python -m tests.v2.changes`` writes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from pytest_mlebench.catalog import Competition, default_catalogue
from pytest_mlebench.catalog.catalogue import NOT_CORE
from tests.v2 import files, graders, leaks, splits  # noqa: F401  (they register their probes)
from tests.v2.probes import PROBED

PATH = Path(__file__).parents[2] / "CHANGES-v2.md"
HEAD = """\
# What version 2 of the benchmark changes

Generated from the competitions' folders by `python -m tests.v2.changes`.

- *Evidence* names the probes in `tests/v2`: on synthetic data, each finds a defect in version 1 that version 2 lacks.
- *Thresholds* says whether the leaderboard's medals still mean the same; if not, how the test differs from Kaggle's.
  They *apply* with the same metric, label process and grouping, and a test no easier than Kaggle's. A medal is
  *indicative* if the metric or the label process differs, or if the test is easier. Read them *with care* if the
  grouping differs, or if the test is harder or very small.
- A competition without changes is the same in both versions, including its defects.

| competition | what was wrong | evidence | what was done | thresholds |
|---|---|---|---|---|
"""


def table() -> str:
    """The content of the file."""
    catalogue = default_catalogue(version="v2")
    rows = [competition for competition in catalogue if competition.split != "smoke"]
    reasons = "".join(f"- {id}: {reason}\n" for id, reason in sorted(NOT_CORE.items()))
    contaminated = "".join(f"- {own.id}: {own.contaminated}\n" for own in rows if own.contaminated)
    return (
        HEAD
        + "".join(f"| {' | '.join(_cells(competition))} |\n" for competition in rows)
        + f"\n## Contaminated\n\n{contaminated}"
        + "\n## Not in the split `core`\n\nThe split leaves out the contaminated competitions, and those where gold is "
        + f"no farther from bronze than one\nstandard error of the score (`python -m tools.core_split`):\n\n{reasons}"
    )


def _cells(second: Competition) -> Iterator[str]:
    first = second.of_version("v1")
    yield second.id
    yield _list(first.known_issues)
    probes = PROBED.get(second.id, {})
    yield _list(f"{line}. {', '.join(f'`{name}`' for name in probes[line])}" for line in sorted(probes))
    done = [f"{line}. {change}" for line, change in enumerate(second.changes, 1)]
    left = [f"Not corrected: {issue}" for issue in second.known_issues] if second.is_corrected else []
    yield _list([*done, *left]) if done or left else "nothing"
    differences = [f"{kind}: {difference}" for kind, difference in second.differences.items()]
    yield _list([second.thresholds, *differences]) if second.is_corrected else "as in version 1"


def _list(items: Iterable[str]) -> str:
    return "<br>".join(item.replace("|", "\\|") for item in items) or "–"


if __name__ == "__main__":
    PATH.write_text(table(), encoding="utf-8")
