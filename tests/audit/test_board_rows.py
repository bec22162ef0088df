"""Rows of a leaderboard: which are comparable, and if not, why; the ranking; and how the page is written."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pytest_mlebench.catalog import Catalogue, Competition, default_catalogue
from pytest_mlebench.data.store import DataStore
from pytest_mlebench.errors import UsageError
from pytest_mlebench.extras.bundles.board.rows import Figure, Rejected, Row, published_rows, ranked, rows_of
from pytest_mlebench.extras.bundles.board.site import Board, write_site
from pytest_mlebench.extras.bundles.card import Card, Check, CheckResult
from pytest_mlebench.grading.twins import TwinStore
from pytest_mlebench.records.outcome import SandboxAccount
from pytest_mlebench.records.record import MANIFEST, RunRecord
from pytest_mlebench.results import read_group
from pytest_mlebench.results.findings import Findings
from pytest_mlebench.results.overview import PublishedResult
from pytest_mlebench.results.statistics import Interval, Rate
from pytest_mlebench.runs.regrade import Regrader
from tests.groups import record_with, report_of, save_group

DIGEST = "d" * 64
HARDWARE = {"host": "h", "cpu": "Xeon", "cpus": 36, "memory": 440 << 30, "gpus": {"NVIDIA A10": 1}}
LIMITS = {"time_limit": 86400.0, "cpus": 36, "memory": 440 << 30, "gpus": 1}
Change = Callable[[dict[str, Any]], object]


class _Data:
    """A store's facts about prepared data."""

    def __init__(self, *, is_synthetic: bool = False, is_verified: bool = True) -> None:
        self.is_synthetic, self.is_verified = is_synthetic, is_verified


class _Graders(Regrader):
    """Graders of the bundled competitions, with data that has the given properties."""

    def __init__(self, catalogue: Catalogue, **data: bool) -> None:
        super().__init__(catalogue, DataStore(Path("nowhere")), partial(TwinStore, Path("nowhere")))
        self._data = _Data(**data)

    def dataset(self, record: RunRecord) -> Any:
        return self._data


def smoke() -> list[Competition]:
    return default_catalogue().split("smoke")


def record(competition: Competition, outcome: str = "gold", *, seed: int = 0, agent: str = "agent") -> RunRecord:
    made = record_with(competition, outcome, agent=agent, seed=seed)
    return replace(
        made, sandbox=SandboxAccount(name="docker", network="llm"), description="kaggle", data={"answers": "x"}
    )


def rows(
    folder: Path,
    records: list[RunRecord],
    change: Change = lambda values: None,
    *,
    checks: tuple[Check, ...] = (Check("grades", CheckResult.verified, ""), Check("models", CheckResult.verified, "")),
    **data: bool,
) -> list[Row]:
    """Rows of a group in MLE-bench's own setting, after ``change`` is applied to its manifest."""
    save_group(folder / "g", records, planned=[own.key for own in records])
    path = folder / "g" / MANIFEST
    values = json.loads(path.read_text())
    agents = {own.agent: {"id": own.agent, "sandbox": "docker"} for own in records}
    values |= {
        "settings": {"agents": agents, "limits": dict(LIMITS), "network": "llm"},
        "sessions": [{"started_at": "2026-03-01T12:00:00+00:00", "workers": 1, "hardware": HARDWARE, "changes": []}],
        "canonical": {"is_canonical": True, "differences": []},
    }
    change(values)
    path.write_text(json.dumps(values))
    found = Findings(version="0", audited_at="", runs=tuple(own.run_id for own in records))
    card = Card(run_group="g", digest=DIGEST, checks=checks, left_out=(), profile=(), findings=found)
    return list(rows_of(read_group(folder / "g"), card, _Graders(default_catalogue(), **data)))


def whole(outcome: str = "gold", seeds: int = 3) -> list[RunRecord]:
    return [record(competition, outcome, seed=seed) for competition in smoke() for seed in range(seeds)]


def test_a_complete_split_in_the_canonical_setting_is_comparable(tmp_path: Path) -> None:
    (row,) = rows(tmp_path, whole())
    assert row.reasons == () and row.status == "ranked"
    assert (row.agent, row.split, row.competitions, row.seeds) == ("agent", "smoke", 3, 3)
    assert (row.time, row.hours, row.data, row.version) == ("24 h", 24.0, "real", "1")
    assert row.hardware == "36 × Xeon, 440 GiB, 1 × NVIDIA A10"
    assert str(row.rates["any_medal"]) == str(row.rates["gold"]) == "100.0 %"
    assert str(row.rates["silver"]) == "0.0 %" and row.rates["silver"].spread == "0–56 %"


def _limit(records: list[RunRecord]) -> list[RunRecord]:
    return [replace(own, limits={**own.limits, "time_limit": 3600.0}) for own in records]


def _sandbox(**values: Any) -> Callable[[list[RunRecord]], list[RunRecord]]:
    return lambda records: [replace(own, sandbox=replace(own.sandbox, **values)) for own in records]


def _same(records: list[RunRecord]) -> list[RunRecord]:
    return records


APART: dict[str, tuple[Callable[[list[RunRecord]], list[RunRecord]], Change, dict[str, Any], str]] = {
    "time": (_limit, lambda v: v["settings"]["limits"].update(time_limit=3600.0), {}, "time: 1 h instead of 24 h"),
    "hardware": (_same, lambda v: v["sessions"][0].update(hardware={**HARDWARE, "gpus": {"H100": 1}}), {},
                 "setting: 1 GPU for a run (the machine's: H100) instead of one 24 GB A10"),
    "local sandbox": (_sandbox(name="local", network="not enforced"),
                      lambda v: v["settings"]["agents"]["agent"].update(sandbox="local"), {},
                      "setting: no container: the local sandbox"),
    "test feedback": (_sandbox(name="local"), lambda v: None, {},
                      "test-set feedback: without a container, agents could read the answers on the same machine"),
    "open network": (_sandbox(network="full"), lambda v: None, {},
                     "external knowledge: runs could fetch data and weights (0 hosts reached)"),
    "tools of providers": (_same, lambda v: v["settings"].update(allow_provider_tools=True), {},
                           "setting: tools that providers run, such as web search, were allowed"),
    "two seeds": (lambda own: [r for r in own if r.seed < 2], lambda v: None, {},
                  "seeds: 2 complete, but at least 3 are needed"),
    "not the whole split": (lambda own: [r for r in own if r.competition_id != smoke()[0].id], lambda v: None, {},
                            "split: 2 of 3 competitions"),
    "synthetic data": (_same, lambda v: None, {"is_synthetic": True}, "data: synthetic"),
    "data that was never compared": (_same, lambda v: None, {"is_verified": False}, "data: not verified"),
    "changed settings": (_same, lambda v: v["sessions"][0].update(changes=["x was 1, is 2"]), {},
                         "sessions: settings were changed between sessions: x was 1, is 2"),
}  # fmt: skip


@pytest.mark.parametrize("name", APART)
def test_a_row_that_is_not_comparable_has_a_reason(name: str, tmp_path: Path) -> None:
    of_records, of_manifest, data, expected = APART[name]
    (row,) = rows(tmp_path, of_records(whole()), of_manifest, **data)
    assert expected in row.reasons and row.status == "apart"
    (row,) = ranked([row])
    assert row.rank is None


def test_a_row_with_unverifiable_claims_is_unranked_and_shows_no_costs(tmp_path: Path) -> None:
    unchecked = (
        Check("grades", CheckResult.verified, ""),
        Check("models", CheckResult.unchecked, "ledgers were left out"),
    )
    (row,) = rows(tmp_path, whole(), checks=unchecked)
    assert row.reasons == ("unverified: models cannot be checked",)
    assert (row.models, row.cost, row.cost_text) == ("models not checked", None, "not checked")


def test_rates_are_given_with_and_without_contaminated_competitions(tmp_path: Path) -> None:
    catalogue = default_catalogue()
    known, other = catalogue["aerial-cactus-identification"], catalogue["leaf-classification"]
    assert known.contaminated and not other.contaminated
    (seen, unseen) = record(known, "gold"), record(other, "no_medal")
    records = [replace(seen, report=replace(seen.report, contaminated=True)), unseen]
    (row,) = rows(tmp_path, records)
    assert row.rates["any_medal"].mean == 50 and row.contaminated == (known.id,)
    assert row.without_contaminated is not None and row.without_contaminated.mean == 0
    (row,) = rows(tmp_path / "alone", records[:1])
    assert row.contaminated == (known.id,) and row.without_contaminated is None


def test_the_mean_percentile_counts_a_run_without_a_score_as_0(tmp_path: Path) -> None:
    records = []
    for own in whole():
        competition = default_catalogue()[own.competition_id]
        if own.seed == 0:
            records.append(record(competition, "no_submission", seed=0))
        else:
            report = report_of(competition, competition.leaderboard.gold)
            records.append(replace(own, report=replace(report, percentile=90.0)))
    (row,) = rows(tmp_path, records)
    assert row.percentile is not None and row.percentile.mean == pytest.approx(60)
    without = [replace(own, report=replace(own.report, percentile=None)) for own in records]
    (row,) = rows(tmp_path / "without", without)
    assert row.percentile is None


def test_models_and_cost_come_from_the_ledgers(tmp_path: Path) -> None:
    llm = {"gateway": "on", "calls": 2, "cost": 0.5, "known_cost": 0.5, "models": {"small": {"calls": 2}}}
    (row,) = rows(tmp_path, [replace(own, llm=llm) for own in whole()])
    assert (row.models, row.cost, row.cost_text) == ("small", 0.5, "$0.50")
    assert row.reasons == (), "contamination cannot be known, so it does not distinguish agents that use models"
    past = [replace(own, llm={**llm, "gateway": "off"}) for own in whole()]
    (row,) = rows(tmp_path / "past", past)
    assert row.models == "small; perhaps others"


def test_a_row_does_not_depend_on_other_agents_of_the_group(tmp_path: Path) -> None:
    others = [
        replace(record(competition, seed=0, agent="local"), sandbox=SandboxAccount(name="local"))
        for competition in smoke()
    ]
    own, other = rows(tmp_path, [*whole(), *others], lambda v: v["settings"]["agents"]["local"].update(sandbox="local"))
    assert (own.agent, own.status) == ("agent", "ranked")
    assert (other.agent, other.status) == ("local", "apart")


def row(agent: str, mean: float, split: str = "low", **more: Any) -> Row:
    rates = {"any_medal": Figure(mean=mean, interval=Interval(0, 100))}
    return Row(agent=agent, split=split, rates=rates, **({"digest": DIGEST} | more))


def test_comparable_rows_are_ranked_within_their_split() -> None:
    reported = PublishedResult(agent="reported", llm="m", date="2026", hours=24, rates={"low": Rate(99.0, 1.0)})
    found = ranked(
        [
            row("worse", 10),
            row("apart", 100, reasons=("time: 1 h",)),
            row("best", 50.001),
            row("as good", 50.0),
            row("second version", 1, split="low v2"),
            *published_rows([reported]),
        ]
    )
    assert [(own.agent, own.rank) for own in found] == [
        ("as good", 1),
        ("best", 1),
        ("worse", 3),
        ("reported", None),
        ("apart", None),
        ("second version", 1),
    ]


def test_published_results_in_another_setting_are_not_comparable() -> None:
    rates = {"low": Rate(50.0, 1.5), "all": Rate(40.0, 1.0)}
    found = published_rows(
        [
            PublishedResult(agent="a", llm="m", date="2026", hours=24, rates=rates, padded_incomplete_seeds=True),
            PublishedResult(agent="b", llm="m", date="2026", hours=12, rates=rates),
            PublishedResult(agent="c", llm="m", date="2026", hours=None, rates=rates, comparable=False, note="peeked"),
        ]
    )
    of_low = {own.agent: own for own in found if own.split == "low"}
    assert {own.verification for own in of_low.values()} == {"reported, not verified"}
    assert of_low["a"].status == "reported" and of_low["a"].rates["any_medal"].spread == "± 1.5"
    assert of_low["a"].remarks == ("seeds that were incomplete were padded with failures",)
    assert of_low["b"].reasons == ("time: 12 h instead of 24 h",)
    assert of_low["c"].reasons == ("peeked", "time: an unknown time limit instead of 24 h")


def site(*rows: Row, **more: Any) -> Board:
    return Board(**({"title": "Ours", "rows": rows, "rejected": (), "cards": {}, "reports": {}} | more))


def test_a_page_escapes_untrusted_text_and_shows_uncontaminated_rates(tmp_path: Path) -> None:
    evil = "<script>window.owned=1</script>\x1b[2J\u202e"
    shown = row(
        evil,
        50.0,
        contaminated=("aerial-cactus",),
        without_contaminated=Figure(mean=12.5),
        models=evil,
        reasons=(evil,),
    )
    rejected = Rejected(file=evil, run_group=evil, verdict=evil, reasons=(evil,))
    write_site(site(shown, title=evil, rejected=[rejected]), tmp_path / "site")
    text = (tmp_path / "site/index.html").read_text()
    assert text.count("<script>") == 1 and text.count("&lt;script&gt;window.owned=1&lt;/script&gt;") > 6
    assert "\x1b" not in text and "\u202e" not in text
    assert "12.5 % without 1 contaminated" in text and "aerial-cactus: the answers are publicly known" in text
    assert "default-src &#39;none&#39;" in text or "default-src 'none'" in text
    assert "http:" not in text and "https:" not in text, "nothing is loaded from other hosts"


def test_a_failed_write_leaves_the_previous_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_site(site(row("first", 50.0)), tmp_path / "site")
    before = {path: path.read_bytes() for path in (tmp_path / "site").rglob("*") if path.is_file()}

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr("pytest_mlebench.io.files.sync", full)
        with pytest.raises(UsageError, match="site cannot be written: No space left"):
            write_site(site(row("second", 50.0)), tmp_path / "site")
    assert {path: path.read_bytes() for path in (tmp_path / "site").rglob("*") if path.is_file()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["site"]
    write_site(site(row("second", 50.0)), tmp_path / "site")
    assert "second" in (tmp_path / "site/index.html").read_text()
