"""The benchmark's versions and medals, and the default limits. Sizes are in bytes, times in seconds."""

from __future__ import annotations

from typing import Literal

VERSIONS = ("v1", "v2")
"""Versions of the benchmark: the first reproduces MLE-bench with its defects, the second corrects them."""
Medal = Literal["gold", "silver", "bronze"]
MEDALS: tuple[Medal, ...] = ("gold", "silver", "bronze")

TIME_LIMIT = 24 * 3600.0
"""Time limit of a run, as in MLE-bench."""
UNTIL = ("done", "limit")
"""Values of ``--until``."""
MAX_SEEDS = 10_000
"""Maximum number of seeds in a session. Each agent runs once per seed on each competition."""
MAX_SUBMISSION_BYTES = 1 << 30
"""Largest submission that is read. The largest legitimate one (denoising-dirty-documents) has 0.2 GB."""
GRADING_MEMORY = 8 << 30
"""Memory limit of the process that grades one submission."""
GRADING_SECONDS = 600.0
"""Time limit of the process that grades one submission."""
PROCESSES = 4096
"""Limit on the processes of an agent."""
LOG_BYTES = 64 << 20
"""How much of an agent's output is kept: its head and its tail."""
COLLECT_BYTES = 8 << 30
"""Limit on the size collected from each of an agent's folders ``submission``, ``logs`` and ``code``."""
COLLECT_FILES = 100_000
"""Limit on the files collected from each of these folders."""
SNAPSHOTS = 200
"""Limit on the snapshots of a run's submission."""
SNAPSHOT_SECONDS = 10.0
"""Minimum time between two snapshots."""
SNAPSHOT_BYTES = 2 << 30
"""Limit on the size of all snapshots of a run."""
TIMELINE_SECONDS = 3600.0
"""Time limit for grading the snapshots of a run; the rest are not graded."""
JOB_MARGIN_SECONDS = 3600.0
"""Extra time for an engine's job, besides its run and grading: for images, copies and slow file systems."""
SHM_BYTES = 1 << 30
"""Size of a container's ``/dev/shm``, which counts as memory."""
GRACE_SECONDS = 5.0
"""Time between SIGTERM and SIGKILL after a timeout, but at most ``GRACE_SHARE`` of the time limit."""
GRACE_SHARE = 0.05
BUILD_SECONDS = 4 * 3600.0
"""Time limit for building one image."""
BUILD_MEMORY = 16 << 30
"""Memory limit of one Dockerfile's commands; at most the machine's memory."""
IMAGE_BYTES = 64 << 30
"""Limit on the size of an agent's image."""
