"""The real Harbor, which runs in a container with the engine's socket (see ``.ci/harbor``)."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[2]
IMAGE = "mlebench-harbor:0.25.0-0.4.0-2"
ZEROS = {"reward": 0.0, "valid": 0, "above_median": 0, "bronze": 0, "silver": 0, "gold": 0}


def harbor(work: Path, *words: str, variables: Mapping[str, str] = {}) -> str:
    """Runs Harbor or another program in its container, with access to local servers; returns the output."""
    environment = {
        "MLEBENCH_DATA_DIR": str(work / "real"),
        "OPENAI_API_KEY": "sk-stand-in",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        **variables,
    }
    options = ["--network=host", "-v/var/run/docker.sock:/var/run/docker.sock", f"-v{work}:{work}", f"-w{work}"]
    options += [f"-e{name}={value}" for name, value in environment.items()]
    command = ["docker", "run", "--rm", *options, IMAGE, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=3000)
    if os.getuid():  # root owns the files that a container wrote
        owner = ["docker", "run", "--rm", f"-v{work}:{work}", IMAGE, "chown", "-R", f"{os.getuid()}:{os.getgid()}"]
        subprocess.run([*owner, str(work)], check=True, timeout=60)
    assert done.returncode == 0, f"{done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout


def bridge() -> str:
    """The address at which containers reach servers on this machine."""
    command = ["docker", "run", "--rm", IMAGE, "python", "-c", _GATEWAY]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.strip()


_GATEWAY = (
    "import socket; rows = map(str.split, open('/proc/net/route')); "
    "print(next(socket.inet_ntoa(bytes.fromhex(row[2])[::-1]) for row in rows if row[1] == '00000000'))"
)


def trial(job: Path, name: str) -> tuple[Path, dict[str, Any]]:
    """The folder and the result of a task's trial."""
    (folder,) = job.glob(f"{name[:32].rstrip('_-')}__*")
    return folder, json.loads((folder / "result.json").read_text())
