"""Records episodes as runs of a run group, each with its trajectory."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from pytest_mlebench import __version__
from pytest_mlebench.agents import Agent
from pytest_mlebench.bench import Bench
from pytest_mlebench.catalog import Competition
from pytest_mlebench.catalog.competition import item_name
from pytest_mlebench.errors import UsageError
from pytest_mlebench.io.extensions import renamed
from pytest_mlebench.io.files import AnyPath, expanded
from pytest_mlebench.io.units import pluralize
from pytest_mlebench.io.values import write_json
from pytest_mlebench.llm.trajectory import MAX_CHARACTERS, MAX_ENTRIES, MAX_TEXT, SCHEMA_VERSION, TRAJECTORY
from pytest_mlebench.records.manifest import PlannedRun
from pytest_mlebench.records.record import RunKey
from pytest_mlebench.runs.writer import OpenGroup
from pytest_mlebench.sandbox.redaction import Redactor, environment_secrets


class EpisodeRecording:
    """A run group in which episodes are recorded, also in parallel. Closing it completes the group.

    All its episodes must have the options of the first one.
    """

    def __init__(self, folder: AnyPath) -> None:
        self.folder = expanded(folder).absolute()
        self._lock = threading.Lock()
        self._opened: OpenGroup | None = None
        self._settings: object = None
        self._competitions: dict[str, Competition] = {}

    def plan(self, bench: Bench, agent: Agent, competition: Competition, sandbox: str, seed: int) -> None:
        """Plan an episode before it starts. Raises UsageError if the group cannot be opened, or has other options."""
        with self._lock:
            settings = bench.comparable_settings, bench.limits, sandbox
            self._competitions[competition.id] = competition
            if self._opened is None:
                self._settings = settings
                self._opened = bench.open_group(
                    self.folder,
                    agents=(agent,),
                    sandboxes={agent.id: sandbox},
                    competition_file=partial(self._file, bench),
                )
            elif settings != self._settings:
                raise UsageError(f"run group {self.folder.name} has episodes with other options: name another group")
            name = item_name(agent.id, f"seed={seed}", competition.version)
            nodeid = f"{competition.id}/competition.yaml::{name}"
            self._opened.plan([PlannedRun(*RunKey(agent.id, competition.id, seed), nodeid=nodeid)])

    def _file(self, bench: Bench, nodeid: str) -> Path:
        id = nodeid.split("/")[0]
        known = self._competitions if id in self._competitions else bench.catalogue
        return (known[id].folder if id in known else self.folder) / "competition.yaml"

    def close(self) -> None:
        """Write the group's reports, and complete its manifest."""
        with self._lock:
            opened, self._opened = self._opened, None
            if opened is not None:
                opened.close()


class Trajectory:
    """The calls of an episode and their results, in ATIF."""

    def __init__(self, agent: str, *, max_entries: int = MAX_ENTRIES) -> None:
        self._agent = agent
        self._max_steps = max_entries // 3  # each with a message, a call and a result
        self._left_out = 0
        self._steps: list[dict[str, Any]] = []
        self._remaining = MAX_CHARACTERS
        self._clean = Redactor(environment_secrets()).text

    def begin(self, instructions: str) -> None:
        """Add the instructions of the agent."""
        self._add("user", self._text(instructions))

    def add(self, call: str, arguments: Mapping[str, str], result: str, extra: Mapping[str, Any] | None = None) -> None:
        """Add a call of the episode with its result, and ``extra`` values of the step."""
        if len(self._steps) >= self._max_steps:
            self._left_out += 1
            return
        id = f"call-{len(self._steps)}"
        step = self._add("agent", "")
        cleaned = {name: self._text(value) for name, value in arguments.items()}
        step["tool_calls"] = [{"tool_call_id": id, "function_name": call, "arguments": cleaned}]
        step["observation"] = {"results": [{"source_call_id": id, "content": self._text(result)}]}
        if extra:
            step["extra"] = dict(extra)

    def write(self, run_dir: Path) -> None:
        """Write ``trajectory.json`` in a run directory."""
        trajectory: dict[str, Any] = {
            "schema_version": SCHEMA_VERSION,
            "session_id": run_dir.name,
            "trajectory_id": "episode",
            "agent": {"name": self._agent, "version": __version__},
            "steps": self._steps,
            "final_metrics": {"total_steps": len(self._steps)},
        }
        if self._left_out:
            trajectory["notes"] = f"Left out: {pluralize(self._left_out, 'call')} at the end."
        write_json(run_dir / TRAJECTORY, trajectory)

    def _add(self, source: str, message: str) -> dict[str, Any]:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        step = {"step_id": len(self._steps) + 1, "timestamp": now, "source": source, "message": message}
        self._steps.append(step)
        return step

    def _text(self, text: str) -> str:
        text = self._clean(text)
        length = min(len(text), MAX_TEXT, max(0, self._remaining))
        self._remaining -= length
        return text if length == len(text) else f"{text[:length]}… [{len(text) - length:,} characters left out]"


renamed(__name__, "0.4", {"Recording": "EpisodeRecording"})
