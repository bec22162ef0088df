"""One competition's data in the store."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pytest_mlebench.catalog.competition import Competition
from pytest_mlebench.data import levelling
from pytest_mlebench.io import disk, durable

DESCRIPTIONS = ("bundled", "kaggle")
Description = Literal["bundled", "kaggle"]
OBFUSCATED = "obfuscated"
"""The choice of a run that hides its competition's name; the store has nothing of it (see ``runs.obfuscation``)."""
OTHER = "other"


@dataclass(frozen=True)
class Dataset:
    """One competition's data in the store, in MLE-bench's layout: ``raw/``, ``prepared/public``, ``prepared/private``.

    Only ``public`` may be shown to an agent. A version that corrects the competition has its data beside that:
    ``prepared-v2``.

    >>> from pytest_mlebench import DataStore, default_catalogue
    >>> dataset = DataStore().prepare(default_catalogue()["smoke-diabetes"])
    >>> sorted(path.name for path in dataset.public.iterdir())
    ['description.md', 'sample_submission.csv', 'test.csv', 'train.csv']
    >>> dataset.answers.name
    'test.csv'
    """

    competition: Competition
    folder: Path

    @property
    def raw(self) -> Path:
        return self.folder / "raw"

    @property
    def prepared(self) -> Path:
        return self.folder / f"prepared{self._suffix}"

    @property
    def mismatch(self) -> Path:
        """Where prepared data is kept that differs from the reference."""
        return self.folder / f"prepared{self._suffix}.mismatch"

    @property
    def _suffix(self) -> str:
        return f"-{self.competition.version}" if self.competition.is_corrected else ""

    @property
    def public(self) -> Path:
        return self.prepared / "public"

    @property
    def private(self) -> Path:
        return self.prepared / "private"

    @property
    def answers(self) -> Path:
        return self.prepared / self.competition.answers

    @property
    def perfect_submission(self) -> Path:
        return self.prepared / self.competition.perfect_submission

    @property
    def sample_submission(self) -> Path:
        return self.prepared / self.competition.sample_submission

    @property
    def required(self) -> tuple[Path, ...]:
        """The files that all data of a competition has."""
        return self.answers, self.perfect_submission, self.sample_submission

    @property
    def is_prepared(self) -> bool:
        return disk.is_dir(self.public) and disk.is_dir(self.private)

    @property
    def is_level(self) -> bool:
        """Whether the files' times, inodes and order tell nothing of what they were made from (see ``levelling``).

        That of earlier versions, and of other programs, may tell answers. False where nothing is prepared.
        """
        return self.is_prepared and levelling.is_level(self.private) and levelling.is_level(self.public)

    @property
    def kernels(self) -> Path:
        """The competition's public notebooks, which plagiarism is looked for in (see ``data.kernels``)."""
        return self.folder / "kernels"

    @property
    def archive(self) -> Path:
        """The downloaded archive, until it is unpacked."""
        return self.folder / f"{self.competition.id}.zip"

    @property
    def partial_archive(self) -> Path:
        return self.folder / f"{self.competition.id}.zip.part"

    @property
    def has_raw(self) -> bool:
        """Whether there is raw data; an empty folder does not count."""
        return disk.has_entries(self.raw)

    @property
    def listing(self) -> Path:
        """A file with the names and sizes that the prepared files had when they were prepared."""
        return self.folder / f"files{self._suffix}.jsonl.gz"

    @property
    def own_paths(self) -> set[Path]:
        """What belongs to this version's prepared data."""
        return {self.prepared, self.mismatch, self.listing, self.pulling, self.state_file, self.twin_record}

    @property
    def pulling(self) -> Path:
        """What has arrived of prepared data that is pulled from elsewhere, until all of it is here."""
        return self.folder / f".pulling{self._suffix}"

    @property
    def source(self) -> str:
        """The URL that the prepared data was pulled from; empty if it was prepared here."""
        source = self.state.get("source")
        return source if isinstance(source, str) else ""

    @property
    def lock_file(self) -> Path:
        """What is locked by whoever changes the folder (see ``locks.hold``)."""
        return self.folder / ".lock"

    @property
    def is_verified(self) -> bool | None:
        """Whether the checksums matched when they were last compared; None if they never were."""
        verified = self.state.get("verified")
        return verified if isinstance(verified, bool) else None

    @property
    def is_synthetic(self) -> bool:
        """Whether the prepared data was made by the competition's ``synthetic.py``."""
        return self.state.get("synthetic") is True

    @property
    def twin_record(self) -> Path:
        """How a twin was made: seed, size, refused worlds, medals. For the harness alone."""
        return self.folder / f"twin{self._suffix}.json"

    @property
    def twin(self) -> Mapping[str, Any]:
        """Of a twin: the key of its seed, its size and, with ``--twin-per-seed``, the run's seed; else empty."""
        twin = self.state.get("twin")
        return twin if isinstance(twin, dict) else {}

    @property
    def description(self) -> str | None:
        """Whose ``description.md`` agents read: ``bundled``, ``kaggle``, or ``other``; None if nothing is prepared.

        ``other`` is that of another program that prepared the data, as MLE-bench.
        """
        source = self.state.get("description")
        if source in DESCRIPTIONS:
            return str(source)
        if not self.is_prepared:
            return None
        try:
            ours = self.competition.description.read_bytes() == (self.public / "description.md").read_bytes()
        except OSError:
            ours = False
        return "bundled" if ours else OTHER

    @property
    def state(self) -> dict[str, Any]:
        """What is known of the prepared data: ``verified``, ``description``, ``fingerprint``, size in ``bytes``, …"""
        try:
            state = json.loads(self.state_file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return state if isinstance(state, dict) else {}

    def note(self, **changes: Any) -> None:
        """Change values of the state, durably. Raises OSError."""
        durable.write_text(self.state_file, json.dumps({**self.state, **changes}) + "\n")

    @property
    def state_file(self) -> Path:
        return self.folder / f"state{self._suffix}.json"
