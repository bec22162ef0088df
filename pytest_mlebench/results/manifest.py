"""A run group's manifest: what its runs had in common, so that a reader can judge comparability and a later session
can go on with it.

``manifest.json`` holds

============  =====================================================================================================
run_group     the group's name
created_at    when its first session began, ISO 8601 in UTC
options       the command-line options that bound the runs, for ``--resume``
settings      what must stay the same for the runs to compare: versions and digests of agents and competitions, limits
runs          the runs that were asked for: ``agent``, ``competition_id``, ``seed``, ``nodeid``
sessions      each invocation: start, end, hardware, workers, versions of libraries, owner, and what it changed
images        the container images that runs used, by agent: tag and digest
connections   hosts that runs reached or tried to reach, with the number of connections, by competition
data          digests of the prepared data by competition (see ``data.verification.fingerprint``)
canonical     whether limits and hardware are MLE-bench's own, and each difference
============  =====================================================================================================
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pytest_mlebench.errors import UsageError
from pytest_mlebench.quantities import format_seconds
from pytest_mlebench.results.record import RunRecord, write_json
from pytest_mlebench.sandbox.base import Limits
from pytest_mlebench.sandbox.hardware import Hardware

MANIFEST = "manifest.json"
_LIBRARIES = ("numpy", "pandas", "scikit-learn", "scipy", "pytest")
UNKNOWN = "unknown"
"""What a setting is that could not be found out, such as the sandbox of an agent where no engine answered."""
_ADDABLE = ("agents", "competitions")
_CANONICAL_SECONDS = 24 * 3600.0
_CANONICAL_CPUS = 36
_CANONICAL_MEMORY = (435e9, 475e9)
"""440 GB, whether these are powers of 1000 or of 1024."""
_CANONICAL_GPU = re.compile(r"\bA10\b")


@dataclass(kw_only=True)
class Manifest:
    """See the module's docstring."""

    run_group: str
    created_at: str
    options: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    runs: list[dict[str, Any]] = field(default_factory=list)
    sessions: list[dict[str, Any]] = field(default_factory=list)
    images: dict[str, dict[str, str]] = field(default_factory=dict)
    connections: dict[str, dict[str, int]] = field(default_factory=dict)
    data: dict[str, dict[str, Any]] = field(default_factory=dict)
    canonical: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, group_dir: Path) -> Manifest | None:
        """The group's manifest; None where there is none. Raises UsageError for one that cannot be read."""
        path = group_dir / MANIFEST
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            return cls(**{own.name: values[own.name] for own in fields(cls) if own.name in values})
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError) as error:
            raise UsageError(f"{path} cannot be read: {error}") from error

    def write(self, group_dir: Path) -> None:
        """Write ``manifest.json``, at once or not at all."""
        write_json(group_dir / MANIFEST, asdict(self))

    def plan(self, runs: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Add runs that are asked for, each once; returns those that are new."""
        known = {_key(run) for run in self.runs}
        added = [dict(run) for run in runs if _key(run) not in known]
        self.runs += added
        return added

    def summarise(self, records: Iterable[RunRecord]) -> None:
        """Take over from the records what belongs to the group as a whole."""
        for record in records:
            if image := record.sandbox.get("image"):
                self.images.setdefault(record.agent, {})[str(image)] = str(record.sandbox.get("image_digest", ""))
            if reached := Counter(str(made.get("host")) for made in record.sandbox.get("connections", ())):
                own = self.connections.setdefault(record.competition_id, {})
                own.update(reached)
            if record.data:
                self.data[record.competition_id] = dict(record.data)


def _key(run: Mapping[str, Any]) -> tuple[Any, ...]:
    return run["agent"], run["competition_id"], run["seed"]


def changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What differs between two ``settings``, a phrase each. Agents and competitions that one lacks are no change."""
    if not old:
        return []
    common = {name: old.get(name, {}).keys() & new.get(name, {}).keys() for name in _ADDABLE}
    before, after = (
        dict(_flatten({**values, **{name: {id: values[name][id] for id in common[name]} for name in _ADDABLE}}))
        for values in (old, new)
    )
    return [
        f"{name} was {before.get(name)!r}, is {after.get(name)!r}"
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name) and UNKNOWN not in (before.get(name), after.get(name))
    ]


def _flatten(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{name} ")
        else:
            yield prefix + str(name), value


def merge(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """``old`` with what ``new`` has in its place or beside it, at every depth."""
    merged = dict(old)
    for name, value in new.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(name), Mapping)
        merged[name] = merge(merged[name], value) if both else value
    return merged


def library_versions() -> dict[str, str]:
    """The versions of what graders compute with."""
    found = {}
    for name in _LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def folder_digest(folder: Path, names: Sequence[str] | None = None) -> str:
    """One md5 for the files below a folder, or for some of them: of their names and contents."""
    paths = sorted(folder.rglob("*")) if names is None else [folder / name for name in names]
    digest = hashlib.md5(usedforsecurity=False)
    for path in paths:
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(path.relative_to(folder).as_posix().encode() + b"\0")
            digest.update(hashlib.md5(path.read_bytes(), usedforsecurity=False).digest())
    return digest.hexdigest()


def canonical_differences(limits: Limits, hardware: Hardware, *, workers: int, sandboxes: Iterable[str]) -> list[str]:
    """How a setting differs from MLE-bench's own: 24 h, 36 vCPU, 440 GB of memory and one 24 GB A10 for each run.

    Without a limit a run has its part of the machine, ``workers`` at once.
    """
    found = []
    if limits.time_limit != _CANONICAL_SECONDS:
        found.append(f"time limit {format_seconds(limits.time_limit)} instead of 24 h")
    cpus = limits.cpus or hardware.cpus / workers
    if cpus != _CANONICAL_CPUS:
        found.append(f"{cpus:g} processor{'' if cpus == 1 else 's'} for a run instead of {_CANONICAL_CPUS}")
    memory = limits.memory or hardware.memory / workers
    if not _CANONICAL_MEMORY[0] <= memory <= _CANONICAL_MEMORY[1]:
        found.append(f"{memory / 1e9:.0f} GB of memory for a run instead of 440 GB")
    models = ", ".join(hardware.gpus) or "none"
    if limits.gpus != 1 or not all(_CANONICAL_GPU.search(model) for model in hardware.gpus):
        found.append(f"{limits.gpus or 'no'} GPU for a run (the machine's: {models}) instead of one 24 GB A10")
    if "local" in sandboxes:
        found.append("no container: the local sandbox")
    return found
