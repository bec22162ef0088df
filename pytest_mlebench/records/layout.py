"""Names of the files in a run group's folder and in the directories of its runs.

``RUN_LOG``, ``SUBMISSION``, ``FILES`` and ``COLLECTED`` are what a sandbox leaves in a run directory (see its
contract).
"""

from __future__ import annotations

from pytest_mlebench.records.account import COLLECTED, FILES, RUN_LOG, SUBMISSION

__all__ = [
    "COLLECTED",
    "EVENTS",
    "FILES",
    "GRADING_REPORT",
    "JOBS",
    "LOCK",
    "MANIFEST",
    "METADATA",
    "RECORD",
    "REPORT",
    "RUNNING",
    "RUN_LOG",
    "SUBMISSION",
    "VALIDATION",
    "WORKERS",
]

MANIFEST = "manifest.json"
"""What the runs of a group have in common (see ``runs.manifest``)."""
METADATA = "metadata.json"
"""Each run's success, as MLE-bench writes it."""
GRADING_REPORT = "grading_report.json"
"""All runs' grades, as MLE-bench writes them."""
REPORT = "report.html"
EVENTS = "events.jsonl"
"""What the sessions of the group reported beside its runs (see ``runs.events``)."""
JOBS = ".jobs"
"""What was handed to an engine, by run."""
LOCK = ".lock"
"""Held by the session that writes the group."""
WORKERS = ".workers"
"""Held by the workers of a session."""

RECORD = "run.json"
"""In a run directory: the record of a run that has ended (see ``runs.record``)."""
RUNNING = "running.json"
"""In a run directory: a run that has not ended yet (see ``runs.running``)."""
VALIDATION = "submission/validation.json"
"""Among the files that a run left: the score that the agent itself expects, if it says so."""
