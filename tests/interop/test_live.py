"""``pytest --otlp=URL``: traces are sent as runs end, and no collector delays or fails a run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_mlebench.extras.interop.otlp import Sender
from pytest_mlebench.extras.interop.otlp_live import LiveTraces, create
from pytest_mlebench.extras.interop.otlp_spans import RunSpans
from pytest_mlebench.options import Settings
from pytest_mlebench.records.record import RunRecord
from tests.interop.collector import Collector, attributes, collecting
from tests.interop.recorded import recorded_group
from tests.plugin.conftest import project, records, run_toys

__all__ = ["project", "records", "run_toys"]
Run = Callable[..., pytest.RunResult]
sessions = pytest.mark.full
COLLECTORS = pytest.mark.parametrize("answer", ["stall", "drop", 500, 400, None], ids=str)


@pytest.fixture
def group(tmp_path: Path) -> tuple[Path, list[RunRecord]]:
    folder = tmp_path / "runs/live"
    return folder, recorded_group(folder, runs=4)


def live(
    collector: Collector, folder: Path, *, most: int = 1000, drain: float = 20.0, seconds: float = 0.3
) -> LiveTraces:
    sender = Sender(collector.url, {}, attempts=2, seconds=seconds)
    return LiveTraces(sender, RunSpans(str), folder, most=most, drain=drain)


def roots(collector: Collector) -> list[object]:
    return sorted(attributes(span)["mlebench.run_id"] for span in collector.by_id.values() if not span.parent_span_id)


def test_runs_are_sent_when_they_end(group: tuple[Path, list[RunRecord]]) -> None:
    folder, found = group
    with collecting() as collector:
        traces = live(collector, folder)
        traces.ended(found[0], folder / found[0].run_id)
        assert collector.seen.wait(20), "before the session's end"
        for record in found[1:]:
            traces.ended(record, folder / record.run_id)
        assert traces.close() == f"4 traces sent to {collector.url}/v1/traces"
        assert list(traces.warnings()) == []
    assert roots(collector) == [record.run_id for record in found]


@COLLECTORS
def test_a_bad_collector_gets_one_warning_and_delays_nothing(
    answer: str | int | None, group: tuple[Path, list[RunRecord]]
) -> None:
    folder, found = group
    with collecting() as collector:
        collector.always = answer
        if answer is None:
            collector.url = "http://127.0.0.1:9"
        traces = live(collector, folder, drain=0.1, seconds=60)
        started = time.monotonic()
        for record in found:
            traces.ended(record, folder / record.run_id)
        took = time.monotonic() - started
        line = traces.close()
        warned = [*traces.warnings(), *traces.warnings()]
    assert took < 15, "the session waited for the collector"
    assert line.startswith("0 traces sent to ") and ", 4 not: " in line
    assert f"mlebench export --to=otlp --endpoint={collector.url}/v1/traces {folder}" in line
    assert len(warned) <= 1


def test_rejected_traces_are_sent_when_the_collector_recovers(group: tuple[Path, list[RunRecord]]) -> None:
    folder, found = group
    with collecting() as collector:
        collector.always = 503
        traces = live(collector, folder)
        traces.ended(found[0], folder / found[0].run_id)
        while not (warned := list(traces.warnings())):
            time.sleep(0.01)
        assert "it answered 503: not now" in warned[0]
        collector.always = None
        for record in found[1:]:
            traces.ended(record, folder / record.run_id)
        assert traces.close().startswith("4 traces sent")
    assert roots(collector) == [record.run_id for record in found]


def test_the_number_of_waiting_runs_is_bounded(group: tuple[Path, list[RunRecord]]) -> None:
    folder, found = group
    with collecting(["stall"]) as collector:
        traces = live(collector, folder, most=2)
        for record in found:
            traces.ended(record, folder / record.run_id)
        collector.released.set()
        assert "2 traces sent" in (line := traces.close()) and "2 not: " in line
    assert len(roots(collector)) == 2


@pytest.fixture
def broken(group: tuple[Path, list[RunRecord]]) -> Iterator[tuple[Path, list[RunRecord]]]:
    folder, found = group
    (folder / found[0].run_id / "trajectory.json").write_text('{"steps": [{"source": 5, "tool_calls": 7}, 3]}')
    (folder / found[1].run_id / "llm/calls.jsonl").write_text('{"kind": "generate", "tokens": 5, "seconds": "x"}\n[]\n')
    yield folder, found


def test_invalid_recordings_do_not_stop_other_runs(broken: tuple[Path, list[RunRecord]]) -> None:
    folder, found = broken
    with collecting() as collector:
        traces = live(collector, folder)
        for record in found:
            traces.ended(record, folder / record.run_id)
        assert traces.close().startswith("4 traces sent")
    assert len(roots(collector)) == 4


def test_secrets_of_the_session_are_masked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "sk-of-a-test-0123456789abcdef"
    (record,) = recorded_group(tmp_path / "live", runs=1, said=f"key {secret}")
    monkeypatch.setenv("OPENAI_API_KEY", secret)
    with collecting() as collector:
        traces = create(Settings(otlp_content=True), collector.url, tmp_path)
        traces.ended(record, tmp_path / "live" / record.run_id)
        assert traces.close().startswith("1 trace sent")
    sent = b"".join(collector.requests)
    assert b"key ***" in sent and secret.encode() not in sent


@sessions
@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["one process", "xdist"])
def test_a_session_sends_each_run_once(workers: tuple[str, ...], project: pytest.Pytester, run_toys: Run) -> None:
    with collecting() as collector:
        options = (f"--otlp={collector.url}", "--seeds=2", *workers)
        result = run_toys("gold", "crashes", options=options)
        result.stdout.fnmatch_lines([f"mlebench: 4 traces sent to {collector.url}/v1/traces"])
        assert len(roots(collector)) == len({span.trace_id for span in collector.spans}) == 4
        again = run_toys("gold", "crashes", options=options)
        again.stdout.fnmatch_lines([f"mlebench: 0 traces sent to {collector.url}/v1/traces"])
    assert len(roots(collector)) == 4
    manifest = (project.path / "reports/toys/manifest.json").read_text()
    assert "otlp" not in manifest


@sessions
def test_a_session_with_an_unreachable_collector_ends_normally(project: pytest.Pytester, run_toys: Run) -> None:
    result = run_toys("gold", options=("--otlp=http://127.0.0.1:9",))
    assert result.ret == 0
    shown = result.stdout.str()
    assert shown.count("--otlp: http://127.0.0.1:9/v1/traces: it cannot be reached") <= 1
    result.stdout.fnmatch_lines(["mlebench: 0 traces sent to *, 1 not: it cannot be reached: *refused*--to=otlp*"])


@sessions
def test_invalid_option_combinations_are_rejected(project: pytest.Pytester, run_toys: Run) -> None:
    wrong = run_toys("gold", options=("--otlp=localhost",))
    wrong.stderr.fnmatch_lines(["ERROR: --otlp: 'localhost' is not a URL of http:// or https://*"])
    content = run_toys("gold", options=("--otlp-content",))
    content.stderr.fnmatch_lines(["ERROR: --otlp-content needs a collector: add --otlp=URL"])
    alone = project.runpytest_subprocess("--otlp=http://localhost", "--split=smoke")
    alone.stderr.fnmatch_lines(["ERROR: --otlp needs an agent: add --agent=ID"])
