"""One competition's data as it lies in the store."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pytest_mlebench.catalog.competition import Competition
from pytest_mlebench.data import durable

DESCRIPTIONS = ("bundled", "kaggle")
Description = Literal["bundled", "kaggle"]


@dataclass(frozen=True)
class Dataset:
    """One competition's data in the store, in MLE-bench's layout: ``raw/``, ``prepared/public``, ``prepared/private``.

    Only ``public`` may be shown to an agent.
    """

    competition: Competition
    folder: Path

    @property
    def raw(self) -> Path:
        return self.folder / "raw"

    @property
    def prepared(self) -> Path:
        return self.folder / "prepared"

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
    def is_prepared(self) -> bool:
        return self.public.is_dir() and self.private.is_dir()

    @property
    def archive(self) -> Path:
        """The download, where it is not unpacked yet."""
        return self.folder / f"{self.competition.id}.zip"

    @property
    def partial_archive(self) -> Path:
        return self.folder / f"{self.competition.id}.zip.part"

    @property
    def has_raw(self) -> bool:
        """Whether there is raw data; an empty folder is none."""
        return self.raw.is_dir() and any(self.raw.iterdir())

    @property
    def listing(self) -> Path:
        """Names and sizes of the prepared files, as they were when they were prepared."""
        return self.folder / "files.jsonl.gz"

    @property
    def is_verified(self) -> bool | None:
        """Whether the checksums held when they were last compared; None where nobody did."""
        verified = self.state.get("verified")
        return verified if isinstance(verified, bool) else None

    @property
    def description(self) -> str | None:
        """Whose ``description.md`` agents read: ``bundled``, ``kaggle``, or None where it is not known."""
        source = self.state.get("description")
        return source if source in DESCRIPTIONS else None

    @property
    def state(self) -> dict[str, Any]:
        """What is known of the prepared data: ``verified``, ``description``, and its size in ``bytes``."""
        try:
            state = json.loads(self._state.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return state if isinstance(state, dict) else {}

    def note(self, **changes: Any) -> None:
        """Change the state, for good; raises OSError."""
        durable.write_text(self._state, json.dumps({**self.state, **changes}) + "\n")

    @property
    def _state(self) -> Path:
        return self.folder / "state.json"
