"""A run group's manifest: what its runs have in common. Readers use it to judge comparability, and later sessions to
resume the group.

``manifest.json`` has these keys:

============  =====================================================================================================
run_group     the group's name
created_at    when its first session began, ISO 8601 in UTC
options       the command-line options that determined the runs, for ``--resume``
settings      what must stay the same for runs to be comparable: versions, digests of agents and competitions, limits
runs          the planned runs: ``agent``, ``competition_id``, ``seed``, ``nodeid``
sessions      each invocation: start, end, hardware, workers, versions of libraries, owner, and changed settings
images        the container images that runs used, by agent: tag and digest
connections   hosts that runs reached or tried to reach, with the number of connections, by competition
models        language models that answered, with the number of calls, by agent
data          digests of the prepared data by competition (see ``data.dataset.fingerprint``)
twins         seed and size of the group's twins, once all of its runs are done; until then ``settings`` has a digest
permissions   the permissions that agents used, by agent: secrets, hosts, no isolation, privileged containers
canonical     whether settings and hardware are those of the published results, and each difference
============  =====================================================================================================
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pytest_mlebench import defaults
from pytest_mlebench.errors import UsageError, reason
from pytest_mlebench.io.units import format_duration, format_size
from pytest_mlebench.io.values import read_json, valid_text, write_json
from pytest_mlebench.records.outcome import TWIN_DATA, Hardware, Limits
from pytest_mlebench.records.record import MANIFEST, RunKey, RunRecord, check_seed

_LIBRARIES = ("numpy", "pandas", "scikit-learn", "scipy", "pytest")
UNKNOWN = "unknown"
"""A setting that could not be determined, such as an agent's sandbox if Docker did not respond."""
_ADDABLE = ("agents", "competitions")
_CANONICAL_CPUS = 36
_CANONICAL_MEMORY = (435e9, 475e9)
"""440 GB, in powers of 1000 or of 1024."""
_CANONICAL_GPU = re.compile(r"\bA10\b")


@dataclass(frozen=True)
class PlannedRun:
    """A planned run, with its pytest node id."""

    agent: str
    competition_id: str
    seed: int
    nodeid: str = ""

    def __post_init__(self) -> None:
        check_seed(self.seed)

    @property
    def key(self) -> RunKey:
        return RunKey(self.agent, self.competition_id, self.seed)


@dataclass(frozen=True, kw_only=True)
class SessionRecord:
    """One invocation of pytest on a run group."""

    started_at: str
    ended_at: str | None = None
    workers: int = 1
    hardware: Hardware | None = None
    libraries: Mapping[str, str] = field(default_factory=dict)
    owner: Mapping[str, str] = field(default_factory=dict)
    changes: tuple[str, ...] = ()
    """Differences from earlier settings that ``--allow-changes`` permitted."""
    cluster: Mapping[str, str] = field(default_factory=dict)
    """The engine that runs were submitted to; empty if the session executed them itself."""


@dataclass(frozen=True)
class Canonical:
    """Whether a group's settings and hardware are those of the published results, and how they differ."""

    is_canonical: bool
    differences: tuple[str, ...] = ()

    @classmethod
    def combine(cls, earlier: Canonical | None, differences: Iterable[str]) -> Canonical:
        """The value for a group after another session, which has these differences."""
        combined = tuple(dict.fromkeys([*(earlier.differences if earlier else ()), *differences]))
        return cls(not combined, combined)


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """See the module's docstring."""

    run_group: str = ""
    created_at: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    runs: tuple[PlannedRun, ...] = ()
    sessions: tuple[SessionRecord, ...] = ()
    images: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    connections: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    data: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    models: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    permissions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    twins: Mapping[str, Any] = field(default_factory=dict)
    canonical: Canonical | None = None

    def __post_init__(self) -> None:
        for name in _ADDABLE:
            known = self.settings.get(name, {})
            if not isinstance(known, Mapping) or not all(isinstance(item, Mapping) for item in known.values()):
                raise ValueError(f"settings.{name} must be an object of objects")
        if not isinstance(self.settings.get("bench_version", ""), str):
            raise ValueError("settings.bench_version must be text")
        for id, about in self.settings.get("competitions", {}).items():
            for name in ("split", "category"):
                if not isinstance(text := about.get(name, ""), str) or valid_text(text) != text:
                    raise ValueError(f"settings.competitions: the {name} of {id[:100]} must be text")

    @classmethod
    def read(cls, group_dir: Path) -> Manifest | None:
        """The group's manifest; None if there is none. Raises UsageError if it cannot be read."""
        path = group_dir / MANIFEST
        try:
            return read_json(path, cls)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise UsageError(
                f"{path} cannot be read: {reason(error)}; "
                "if you move it away, the runs can be reported, but not resumed"
            ) from error

    def write(self, group_dir: Path) -> None:
        """Write ``manifest.json`` atomically."""
        write_json(group_dir / MANIFEST, asdict(self))

    @property
    def keys(self) -> frozenset[RunKey]:
        """The planned runs."""
        return frozenset(run.key for run in self.runs)

    @property
    def run_by(self) -> str:
        """The program that executed the runs of an imported group: ``harbor 0.25.0``. Empty for our own sessions."""
        noted = self.settings.get("run_by")
        if not isinstance(noted, Mapping):
            return ""
        return " ".join(str(noted.get(name, UNKNOWN))[:50] for name in ("name", "version"))

    def with_records(self, records: Iterable[RunRecord]) -> Manifest:
        """A copy that is updated with the images, connections, data, models and permissions of the records."""
        images = {agent: dict(digests) for agent, digests in self.images.items()}
        connections = {id: dict(counts) for id, counts in self.connections.items()}
        data = dict(self.data)
        models: dict[str, Counter[str]] = {}
        permissions = {agent: dict(used) for agent, used in self.permissions.items()}
        for record in records:
            if image := record.sandbox.image:
                images.setdefault(record.agent, {})[image] = record.sandbox.image_digest
            if reached := Counter(connection.host for connection in record.sandbox.connections):
                connections.setdefault(record.competition_id, {}).update(reached)
            for model, calls in record.models_called.items():
                models.setdefault(record.agent, Counter())[model] += calls
            for name, used in (record.permissions.get("used") or {}).items():
                known = permissions.setdefault(record.agent, {})
                known[name] = sorted({*known.get(name, ()), *used}) if isinstance(used, list) else used
            if record.data:
                data[record.competition_id] = dict(record.data)
        return replace(
            self,
            images=images,
            connections=connections,
            data=data,
            models={agent: dict(counts) for agent, counts in models.items()},
            permissions=permissions,
        )


def changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[str, ...]:
    """The differences between two ``settings``, one phrase each, except added or removed agents and competitions."""
    if not old:
        return ()
    common = {name: old.get(name, {}).keys() & new.get(name, {}).keys() for name in _ADDABLE}
    before, after = (
        dict(flatten({**values, **{name: {id: values[name][id] for id in common[name]} for name in _ADDABLE}}))
        for values in (old, new)
    )
    return tuple(
        f"{name} was {before.get(name)!r}, is {after.get(name)!r}"
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name) and UNKNOWN not in (before.get(name), after.get(name))
    )


def flatten(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every value of nested settings with its path: the names, separated by spaces."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{name} ")
        else:
            yield prefix + str(name), value


def merge(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """``old`` updated by ``new``, at every depth."""
    merged = dict(old)
    for name, value in new.items():
        are_nested = isinstance(value, Mapping) and isinstance(merged.get(name), Mapping)
        merged[name] = merge(merged[name], value) if are_nested else value
    return merged


def library_versions() -> dict[str, str]:
    """The versions of the libraries that graders use."""
    found = {}
    for name in _LIBRARIES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def folder_digest(folder: Path, names: Sequence[str] | None = None) -> str:
    """The md5 digest of the names and contents of all files below a folder, or of the files ``names``."""
    paths = sorted(folder.rglob("*")) if names is None else [folder / name for name in names]
    digest = hashlib.md5(usedforsecurity=False)
    for path in paths:
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(path.relative_to(folder).as_posix().encode() + b"\0")
            digest.update(hashlib.md5(path.read_bytes(), usedforsecurity=False).digest())
    return digest.hexdigest()


def canonical_differences(limits: Limits, hardware: Hardware, *, workers: int, sandboxes: Iterable[str]) -> list[str]:
    """How limits and hardware differ from MLE-bench's: 24 h, 36 vCPU, 440 GB of memory and one 24 GB A10 for each run.

    If no limit is set, ``workers`` runs share the machine equally.
    """
    found = []
    if limits.time_limit != defaults.TIME_LIMIT:
        found.append(f"time limit {format_duration(limits.time_limit)} instead of 24 h")
    cpus = limits.cpus or hardware.cpus / workers
    if cpus != _CANONICAL_CPUS:
        found.append(f"{cpus:g} processor{'' if cpus == 1 else 's'} for a run instead of {_CANONICAL_CPUS}")
    memory = limits.memory or hardware.memory / workers
    if not _CANONICAL_MEMORY[0] <= memory <= _CANONICAL_MEMORY[1]:
        found.append(f"{format_size(memory)} of memory for a run instead of 440 GB")
    models = ", ".join(hardware.gpus) or "none"
    if limits.gpus != 1 or not all(_CANONICAL_GPU.search(model) for model in hardware.gpus):
        found.append(f"{limits.gpus or 'no'} GPU for a run (the machine's: {models}) instead of one 24 GB A10")
    if "local" in sandboxes:
        found.append("no container: the local sandbox")
    return found


def model_differences(settings: Mapping[str, Any]) -> list[str]:
    """How agents' descriptions and data, and their access to language models, differ from the usual ones."""
    texts = {
        "allow_provider_tools": "tools that providers run, such as web search, were allowed",
        "llm_replay": "answers of language models are from a recording",
        "data": TWIN_DATA,
    }
    differences = [text for name, text in texts.items() if settings.get(name)]
    if settings.get("description") == "obfuscated":
        differences.append("descriptions were obfuscated: agents were not told which competition it is")
    return differences
