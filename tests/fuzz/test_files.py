"""Untrusted files: agents' and competitions' YAML, manifests, records, event logs, archives."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_mlebench.agents.registry import read_config
from pytest_mlebench.catalog import Competition, default_catalogue
from pytest_mlebench.errors import AgentError, CompetitionError, SandboxError, UsageError
from pytest_mlebench.records.group import latest_events, runs_in_progress
from pytest_mlebench.results import read_group
from pytest_mlebench.sandbox.collection import Collector, FilesWriter, collect_archive, collect_submission
from tests.fuzz.bounded import fuzzing, limited_time, run_limited
from tests.left import left

pytestmark = pytest.mark.full

TOYS = Path(__file__).parents[1] / "toys"
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([10**400, -(10**400), 2**63, 1e308, float("inf"), float("nan"), -0.0]),
    st.floats(),
    st.text(max_size=20),
    st.dates(),
    st.binary(max_size=5),
    st.sampled_from(
        ["", "..", "/", "a/../b", "toy/start.sh", "${{ secrets.X }}", "\0", "*", "~", "=", "<<", "1e5", "\ud800"]
    ),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)),
    max_leaves=12,
)
RAW = st.lists(
    st.one_of(
        st.sampled_from(
            [
                *(
                    ": ",
                    "- ",
                    "\n",
                    "  ",
                    "{",
                    "}",
                    "[",
                    "]",
                    "&a ",
                    "*a",
                    "<<: ",
                    "!!python/object:os.system ",
                    "? ",
                    "|\n",
                ),
                *(
                    ">\n",
                    "#",
                    "'",
                    '"',
                    "%YAML 9",
                    "---\n",
                    "...\n",
                    "!!binary ",
                    "!!timestamp ",
                    "!!set ",
                    "!!omap ",
                    "\t",
                ),
                *(
                    "toy/gold",
                    "start",
                    "id",
                    "leaderboard",
                    "2001-99-99",
                    "0o9",
                    "1" * 5000,
                    ".inf",
                    "0x" + "f" * 400,
                    "\x85",
                ),
            ]
        ),
        st.text(max_size=10),
        st.tuples(st.sampled_from(["[", "{a: ", "- ", "? ", "&a [*a, "]), st.integers(1, 20_000)).map(
            lambda pair: pair[0] * pair[1]
        ),
    ),
    max_size=30,
).map("".join)


def dumped(values: Any) -> str:
    try:
        return yaml.safe_dump(values, allow_unicode=True)
    except (yaml.YAMLError, UnicodeError, ValueError):
        return repr(values)


def write(path: Path, text: str) -> None:
    path.write_bytes(text.encode("utf-8", "surrogatepass"))


def changed(values: Any, change: tuple[list[str], Any]) -> Any:
    """The values with another value at the path, if the path exists."""
    path, value = change
    copy = json.loads(json.dumps(values, default=str))
    place = copy
    for key in path[:-1]:
        place = place.get(key) if isinstance(place, dict) else None
    if isinstance(place, dict) and path:
        place[path[-1]] = value
    return copy


def test_any_agent_config_is_read_or_rejected_with_an_error(tmp_path: Path) -> None:
    folder = tmp_path / "agents/toy"
    folder.mkdir(parents=True)
    (folder / "start.sh").touch()
    keys = ["start", "dockerfile", "kwargs_type", "kwargs", "env_vars", "privileged", "trusted", "llm_hosts", "other"]
    definition = st.dictionaries(st.sampled_from(keys), VALUES, max_size=5).map({"start": "toy/start.sh"}.__or__)

    @fuzzing
    @given(st.one_of(RAW, VALUES.map(dumped), st.dictionaries(st.text(max_size=8), definition, max_size=3).map(dumped)))
    def fuzz(text: str) -> None:
        write(folder / "config.yaml", text)
        with limited_time(), suppress(AgentError):
            for agent in read_config(folder / "config.yaml"):
                json.dumps(agent.describe())
                with suppress(AgentError):
                    agent.launch({})

    run_limited(fuzz)


def test_any_competition_is_read_or_rejected_with_an_error(tmp_path: Path) -> None:
    bundled = default_catalogue()["smoke-digits"].folder / "competition.yaml"
    values = yaml.safe_load(bundled.read_text())
    folder = tmp_path / "smoke-digits"
    folder.mkdir()
    (folder / "description.md").touch()
    paths = (
        [[key] for key in values] + [["leaderboard", key] for key in values["leaderboard"]] + [["checksums", "public"]]
    )

    @fuzzing
    @example(dumped(changed(values, (["leaderboard", "gold"], 10**400))))
    @given(
        st.one_of(
            RAW, VALUES.map(dumped), st.tuples(st.sampled_from(paths), VALUES).map(lambda c: dumped(changed(values, c)))
        )
    )
    def fuzz(text: str) -> None:
        write(folder / "competition.yaml", text)
        with limited_time(), suppress(CompetitionError):
            competition = Competition.load(folder)
            assert competition.id == "smoke-digits"
            competition.leaderboard.medal(0.5)
            competition.leaderboard.percentile(0.5)

    run_limited(fuzz)


JSON = st.recursive(
    st.one_of(
        *(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=10)),
        st.sampled_from([10**400, "\ud800", "crashed", "2026-01-01T00:00:00+00:00", -1]),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=8,
)
GARBAGE = st.one_of(
    st.binary(max_size=50),
    st.tuples(st.sampled_from([b"[", b'{"a":', b"9", b" ", b"[[],"]), st.integers(1, 100_000)).map(
        lambda p: p[0] * p[1]
    ),
)
LLM = {"calls": 2, "cost": 0.1, "known_cost": 0.1, "seconds": 3, "models": {"m": {"calls": 2}}}
RECORD = {
    "run_id": "r",
    "run_group": "g",
    "competition_id": "smoke-digits",
    "split": "smoke",
    "category": "Tabular",
    "agent": "a",
    "seed": 0,
    "started_at": "2026-01-01T00:00:00+00:00",
    "ended_at": "2026-01-01T00:01:00+00:00",
    "ending": "finished",
    "seconds": 1.0,
    "detail": "",
    "error": None,
    "limits": {},
    "llm": LLM,
    "versions": {},
    "report": {
        "competition_id": "smoke-digits",
        "score": 0.9,
        "gold_threshold": 0.9,
        "silver_threshold": 0.8,
        "bronze_threshold": 0.7,
        "median_threshold": 0.6,
        "any_medal": True,
        "gold_medal": True,
        "silver_medal": False,
        "bronze_medal": False,
        "above_median": True,
        "submission_exists": True,
        "valid_submission": True,
        "is_lower_better": False,
        "created_at": "2026-01-01T00:00:00",
        "submission_path": "x",
        "error": None,
        "grader_defect": False,
        "percentile": None,
    },
    "sandbox": {"name": "docker", "validations": [[0.1, "ok"]], "connections": [], "limits": {}},
}
MANIFEST = {
    "run_group": "g",
    "created_at": "2026-01-01T00:00:00+00:00",
    "options": {},
    "settings": {"competitions": {}},
    "sessions": [{"started_at": "x", "workers": 1, "hardware": {}, "libraries": {}, "owner": {}, "changes": []}],
    "runs": [{"agent": "a", "competition_id": "smoke-digits", "seed": 0, "nodeid": "x"}],
}


def paths(values: dict[str, Any]) -> list[list[str]]:
    inner = [[key, name] for key, value in values.items() if isinstance(value, dict) for name in (*value, "x")]
    return [[key] for key in values] + inner


def some_json(values: dict[str, Any]) -> st.SearchStrategy[bytes]:
    change = st.tuples(st.sampled_from(paths(values)), JSON)
    mutated = st.lists(change, min_size=1, max_size=3)

    def text(changes: list[tuple[list[str], Any]]) -> bytes:
        made: Any = values
        for one in changes:
            made = changed(made, one)
        return json.dumps(made).encode()

    return st.one_of(GARBAGE, JSON.map(json.dumps).map(str.encode), mutated.map(text))


def test_any_run_group_is_read_or_rejected_with_an_error(tmp_path: Path) -> None:
    group = tmp_path / "group"
    (group / "run").mkdir(parents=True)
    files: dict[str, dict[str, Any]] = {
        "manifest.json": MANIFEST,
        "run/run.json": RECORD,
        "run/running.json": {"owner": {}, "started": 0.0},
    }

    @fuzzing
    @given(st.sampled_from(list(files)).flatmap(lambda name: st.tuples(st.just(name), some_json(files[name]))))
    def fuzz(file: tuple[str, bytes]) -> None:
        for name, values in files.items():
            (group / name).write_bytes(file[1] if name == file[0] else json.dumps(values).encode())
        with limited_time(), suppress(UsageError):
            found = read_group(group)
            found.planned, found.agents, found.splits_and_categories  # noqa: B018
            for record in found.records:
                record.outcome, record.reason, record.cost, record.models_called, record.to_json()
            runs_in_progress(group)

    run_limited(fuzz)


def test_any_log_of_events_is_read(tmp_path: Path) -> None:
    entry = {"at": "x", "worker": "", "kind": "Note", "text": "x", "event": "note"}
    line = st.one_of(some_json(entry), GARBAGE)

    @fuzzing
    @given(st.lists(line, max_size=5))
    def fuzz(lines: list[bytes]) -> None:
        (tmp_path / "events.jsonl").write_bytes(b"\n".join(lines))
        with limited_time():
            assert len(latest_events(tmp_path, 3)) <= 3

    run_limited(fuzz)


NAMES = st.one_of(
    st.sampled_from(
        ["logs", "logs/a", "logs/../../x", "/etc/x", "logs//b", "logs/./c", "logs/" + "d/" * 80, "", ".", "logs/\udcff"]
    ),
    st.text(max_size=20).map("logs/{}".format),
    st.integers(1, 300).map(lambda n: "logs/" + "n" * n),
)
KINDS = [
    tarfile.REGTYPE,
    tarfile.DIRTYPE,
    tarfile.SYMTYPE,
    tarfile.LNKTYPE,
    tarfile.FIFOTYPE,
    tarfile.CHRTYPE,
    b"S",
    b"Z",
]


@st.composite
def archives(draw: st.DrawFn) -> bytes:
    buffer = io.BytesIO()
    format = draw(st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]))
    with tarfile.open(fileobj=buffer, mode="w", format=format, errors="surrogateescape") as tar:
        for name in draw(st.lists(NAMES, max_size=6)):
            info = tarfile.TarInfo(name)
            info.type = draw(st.sampled_from(KINDS))
            info.linkname = draw(NAMES)
            content = draw(st.binary(max_size=30)) if info.type == tarfile.REGTYPE else b""
            info.size = len(content)
            with suppress(ValueError, UnicodeError):
                tar.addfile(info, io.BytesIO(content))
    data = bytearray(buffer.getvalue())
    for position, value in draw(st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 255)), max_size=6)):
        if position < len(data):
            data[position] = value
    return bytes(data[: draw(st.integers(0, len(data)))] if draw(st.booleans()) else data)


def test_any_archive_is_unpacked_only_inside_its_folder(tmp_path: Path) -> None:
    count = iter(range(1 << 30))

    @fuzzing
    @given(archives())
    def fuzz(data: bytes) -> None:
        folder = tmp_path / str(next(count))
        with limited_time(), suppress(SandboxError), FilesWriter(folder) as files:
            collector = Collector(files, 1000, 3)
            collect_archive(_chunks(data), ["logs"], collector)
            collect_submission(_chunks(data), collector)
        assert {path.name for path in folder.rglob("*")} <= {"files.zip", "submission", "submission.csv"}
        assert all(path.startswith("logs/") for path in left(folder)) and len(left(folder)) <= 3

    run_limited(fuzz)


def _chunks(data: bytes) -> Iterator[bytes]:
    yield from (data[start : start + 700] for start in range(0, len(data), 700))
