"""What applies where the user says nothing: the one place for limits and sizes. Sizes in bytes, times in seconds."""

from __future__ import annotations

TIME_LIMIT = 24 * 3600.0
"""Of a run, as in MLE-bench."""
UNTIL = ("done", "limit")
"""When a run of an agent that can be asked again ends."""
MAX_SUBMISSION_BYTES = 1 << 30
"""Largest submission that is read; the largest honest one (denoising-dirty-documents) has 0.2 GB."""
GRADING_MEMORY = 8 << 30
"""Of the process that grades one submission."""
GRADING_SECONDS = 600.0
"""Of the process that grades one submission."""
PROCESSES = 4096
"""Of one run's agent."""
LOG_BYTES = 64 << 20
"""Kept of an agent's output, its head and its tail."""
COLLECT_BYTES = 8 << 30
"""Collected at most from each of an agent's folders ``submission``, ``logs`` and ``code``."""
COLLECT_FILES = 100_000
"""Collected at most from each of these folders."""
SNAPSHOTS = 200
"""Of a run's submission, while its agent runs."""
SNAPSHOT_SECONDS = 10.0
"""Between two snapshots, at least."""
SNAPSHOT_BYTES = 2 << 30
"""Of all snapshots of a run."""
TIMELINE_SECONDS = 3600.0
"""Of grading all snapshots of a run; those that are left then are not graded."""
JOB_MARGIN_SECONDS = 3600.0
"""Of a job of an engine, beside its run and grading: for images, copies and a slow file system."""
SHM_BYTES = 1 << 30
"""Size of a container's ``/dev/shm``, which counts as memory."""
GRACE_SECONDS = 5.0
"""Between SIGTERM and SIGKILL, when a run's time is over, and no more than ``GRACE_SHARE`` of that time."""
GRACE_SHARE = 0.05
BUILD_SECONDS = 4 * 3600.0
"""Of building one image."""
BUILD_MEMORY = 16 << 30
"""Of the commands of one Dockerfile; at most what the machine has."""
IMAGE_BYTES = 64 << 30
"""Of one agent's image."""
