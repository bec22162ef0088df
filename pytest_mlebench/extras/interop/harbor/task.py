"""A competition as a task folder of Harbor.

::

    task.toml  instruction.md
    environment/   the agent's image: public data, the submission checker
    tests/         the verifier's image: answers and the grader, in a container of their own
    solution/      for Harbor's agent ``oracle``: a submission that earns a medal
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_mlebench.data import levelling
from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.extras.interop.harbor import wheel
from pytest_mlebench.io.json_files import loads
from pytest_mlebench.io.paths import bundled
from pytest_mlebench.sandbox.instructions import render_instructions

if TYPE_CHECKING:
    import pandas as pd

    from pytest_mlebench.options import Settings
    from pytest_mlebench.sandbox import Limits

SCHEMA_VERSION = "1.3"
ORGANISATION = "mlebench"
SUBMISSION = "/home/submission/submission.csv"
BASE_IMAGE = "debian:bookworm-slim"
_BUILD_SECONDS = 1800.0
_GRADING_EXTRA_SECONDS = 120.0
"""For starting Python, and for grading the sample submission."""
_TEMPLATES = Path(__file__).with_name("templates")
_NOT_FOR_AGENTS = ("prepare.py", "synthetic.py", "twin.py")
"""Anyone with the complete real data could derive the answers from how it was split."""
_MOUNT = """\
# Real data is not part of the task: MLEBENCH_DATA_DIR is the folder, on the machine of the container runtime, that
# `mlebench prepare` filled.
services:
  main:
    volumes:
      - "${MLEBENCH_DATA_DIR:?set it to the data folder of mlebench}/@DATA@:@TARGET@:ro"
"""


@dataclass(frozen=True, kw_only=True)
class TaskOptions:
    """What is the same for all tasks of an export."""

    settings: Settings
    limits: Limits
    reward: str = "percentile"
    image_prefix: str = ""
    """Of images that the user pushes; empty: Harbor builds them."""
    include_real_data: bool = False


@dataclass(frozen=True, kw_only=True)
class Written:
    """What was written for a competition."""

    folder: Path
    mounted: bool
    """Whether its data has to be where Harbor runs."""
    images: Mapping[str, str]
    """The images to build and push: their names by the folder of the Dockerfile."""


def is_public_data(dataset: Dataset) -> bool:
    """Whether a copy of the data may go anywhere: it is generated, or comes with a library."""
    competition = dataset.competition
    return competition.is_twin or dataset.is_synthetic or competition.source == "bundled"


def write_task(folder: Path, dataset: Dataset, solution: pd.DataFrame | Path | None, options: TaskOptions) -> Written:
    """Write a task into a folder that does not exist yet. Raises OSError."""
    mounted = not (options.include_real_data or is_public_data(dataset))
    folder.mkdir(parents=True)
    images = _images(dataset, options)
    (folder / "task.toml").write_text(to_toml(_config(dataset, images, options)), encoding="utf-8")
    instruction = _instruction(dataset, options.limits)
    (folder / "instruction.md").write_text(instruction, encoding="utf-8")
    _write_environment(folder / "environment", dataset, instruction, options, mounted=mounted)
    _write_tests(folder / "tests", dataset, options, mounted=mounted)
    if solution is not None:
        _write_solution(folder / "solution", solution)
    _set_times(folder)
    return Written(folder=folder, mounted=mounted, images=images)


def _config(dataset: Dataset, images: Mapping[str, str], options: TaskOptions) -> dict[str, Any]:
    """The content of ``task.toml``."""
    competition, limits, settings = dataset.competition, options.limits, options.settings
    environment: dict[str, Any] = {
        "build_timeout_sec": _BUILD_SECONDS,
        **network(settings),
        "cpus": limits.cpus,
        "memory_mb": _megabytes(limits.memory),
        "storage_mb": _megabytes(limits.disk),
        "gpus": limits.gpus or None,
        "docker_image": images.get("environment"),
    }
    return {
        "schema_version": SCHEMA_VERSION,
        "artifacts": [SUBMISSION],
        "task": {
            "name": f"{ORGANISATION}/{competition.id}",
            "description": competition.title,
            "keywords": ["machine-learning", "mle-bench", competition.split_label, competition.category],
        },
        "metadata": {
            "competition_id": competition.id,
            "bench_version": competition.version,
            "data": "twin" if competition.is_twin else "synthetic" if dataset.is_synthetic else "real",
            "reward": options.reward,
            "category": competition.category,
            "metric": competition.metric,
        },
        "agent": {"timeout_sec": float(limits.time_limit)},
        "verifier": {
            "timeout_sec": 2 * settings.grading_time + _GRADING_EXTRA_SECONDS,
            "environment_mode": "separate",
            "environment": {
                "build_timeout_sec": _BUILD_SECONDS,
                "memory_mb": _megabytes(settings.grading_memory),
                "docker_image": images.get("tests"),
            },
        },
        "environment": environment,
    }


def network(settings: Settings) -> dict[str, Any]:
    """The network of the agent's container. Without a choice it is open: Harbor's agents install themselves there."""
    if settings.network == "none":
        return {"network_mode": "no-network"}
    if settings.allow_hosts:
        return {"network_mode": "allowlist", "allowed_hosts": list(settings.allow_hosts)}
    return {"network_mode": "public"}


def _instruction(dataset: Dataset, limits: Limits) -> str:
    text = render_instructions(
        data="/home/data",
        submission="/home/submission",
        logs="/home/logs",
        code="/home/code",
        validate="/home/validate_submission.sh",
        limits=limits,
    )
    description = (dataset.public / "description.md").read_text(encoding="utf-8")
    return f"{text}\n---\n\n{description}"


def _write_environment(
    folder: Path, dataset: Dataset, instruction: str, options: TaskOptions, *, mounted: bool
) -> None:
    competition = dataset.competition
    checker = folder / "mlebench" / "checker"
    checker.mkdir(parents=True)
    _write_dockerfile(folder, dataset, options, "environment", data="" if mounted else "COPY data /home/data")
    _write_grading_layers(folder / "mlebench")
    (folder / "instructions.txt").write_text(instruction, encoding="utf-8")
    shutil.copyfile(bundled("environment") / "requirements.txt", folder / "mlebench" / "agent.txt")
    _copy_program(_TEMPLATES / "validate_submission.sh", folder / "mlebench")
    shutil.copyfile(Path(__file__).with_name("check.py"), checker / "check.py")
    form = {
        "competition_id": competition.id,
        "bench_version": competition.version,
        "sample_submission": competition.sample_submission,
        "max_submission_bytes": options.settings.max_submission_size,
    }
    (checker / "checker.json").write_text(json.dumps(form) + "\n", encoding="utf-8")
    for file in competition.files:
        if file.suffix == ".py" and file.name not in _NOT_FOR_AGENTS:
            _copy_below(file, competition.folder, checker / competition.id)
    if mounted:
        _write_mount(folder, dataset, "public", "/home/data")
    else:
        levelling.level(dataset.public, folder / "data")


def _write_tests(folder: Path, dataset: Dataset, options: TaskOptions, *, mounted: bool) -> None:
    competition, settings = dataset.competition, options.settings
    (folder / "mlebench").mkdir(parents=True)
    _write_dockerfile(folder, dataset, options, "tests")
    _write_grading_layers(folder / "mlebench")
    _copy_program(_TEMPLATES / "test.sh", folder)
    shutil.copyfile(Path(__file__).with_name("verify.py"), folder / "verify.py")
    for file in competition.files:
        _copy_below(file, competition.folder, folder / "competitions" / competition.id)
    twin = dataset.twin
    task = {
        "competition_id": competition.id,
        "bench_version": competition.version,
        "data": f"twin:{twin['key']}:{twin['size']}" if twin else "real",
        "description": dataset.description,
        "reward": options.reward,
        "max_submission_bytes": settings.max_submission_size,
        "grading_memory": settings.grading_memory,
        "grading_time": settings.grading_time,
    }
    (folder / "task.json").write_text(json.dumps(task) + "\n", encoding="utf-8")
    data = Dataset(competition, folder / "data")
    data.folder.mkdir()
    if competition.is_twin:  # its medals, but not the seed that would make its answers again
        medals = loads(dataset.twin_record.read_bytes())["medals"]
        data.twin_record.write_text(json.dumps({"medals": medals}) + "\n", encoding="utf-8")
    if dataset.is_synthetic:
        data.state_file.write_text('{"synthetic": true}\n', encoding="utf-8")
    if mounted:
        _write_mount(folder, dataset, "", f"/tests/data/{dataset.prepared.name}")
        return
    data.prepared.mkdir()
    levelling.level(dataset.private, data.private)
    data.sample_submission.parent.mkdir(exist_ok=True)
    if not data.sample_submission.exists():
        shutil.copyfile(dataset.sample_submission, data.sample_submission)


def _write_solution(folder: Path, solution: pd.DataFrame | Path) -> None:
    folder.mkdir()
    _copy_program(_TEMPLATES / "solve.sh", folder)
    if isinstance(solution, Path):
        shutil.copyfile(solution, folder / "submission.csv")
    else:
        solution.to_csv(folder / "submission.csv", index=False)


def _write_dockerfile(folder: Path, dataset: Dataset, options: TaskOptions, name: str, data: str = "") -> None:
    values = {
        "WHAT": {"environment": "The agent's environment", "tests": "The verifier"}[name],
        "ID": dataset.competition.id,
        "BASE_IMAGE": options.settings.base_image or BASE_IMAGE,
        "WHEEL": wheel.NAME,
        "TIME_LIMIT": f"{options.limits.time_limit:g}",
        "DATA": data,
    }
    text = "".join((_TEMPLATES / part).read_text(encoding="utf-8") for part in ("layers", name))
    (folder / "Dockerfile").write_text(_filled(text, values), encoding="utf-8")


def _write_grading_layers(folder: Path) -> None:
    wheel.write_wheel(folder / wheel.NAME)
    (folder / "requirements.txt").write_text(wheel.requirements(), encoding="utf-8")


def _write_mount(folder: Path, dataset: Dataset, side: str, target: str) -> None:
    data = "/".join(filter(None, (dataset.competition.id, dataset.prepared.name, side)))
    (folder / "docker-compose.yaml").write_text(_filled(_MOUNT, {"DATA": data, "TARGET": target}), encoding="utf-8")


def _filled(text: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    return text


def _copy_program(file: Path, folder: Path) -> None:
    shutil.copyfile(file, folder / file.name)
    (folder / file.name).chmod(0o755)


def _copy_below(file: Path, source: Path, target: Path) -> None:
    copy = target / file.relative_to(source)
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, copy)


def _images(dataset: Dataset, options: TaskOptions) -> dict[str, str]:
    if not options.image_prefix:
        return {}
    name = f"{options.image_prefix}{dataset.competition.id}".lower()  # as names of images have to be
    return {"environment": name, "tests": f"{name}-verifier"}


def _set_times(folder: Path) -> None:
    """Set all times to the same one, those of folders last: when a file was written tells something about it."""
    for path in sorted((folder, *folder.rglob("*")), key=lambda path: len(path.parts), reverse=True):
        os.utime(path, ns=(levelling.TIME_NS, levelling.TIME_NS), follow_symlinks=False)


def _megabytes(size: int | None) -> int | None:
    return None if size is None else max(1, size >> 20)


def to_toml(values: Mapping[str, Any], prefix: str = "") -> str:
    """TOML of strings, numbers, lists of strings, and tables of these; None is left out.

    >>> print(to_toml({"a": 1, "b": {"c": ["d"], "e": None}}), end="")
    a = 1
    <BLANKLINE>
    [b]
    c = ["d"]
    """
    plain = {name: value for name, value in values.items() if not isinstance(value, Mapping) and value is not None}
    lines = [f"{name} = {_toml_value(value)}\n" for name, value in plain.items()]
    for name, value in values.items():
        if isinstance(value, Mapping):
            lines.append(f"\n[{prefix}{name}]\n{to_toml(value, f'{prefix}{name}.')}")
    return "".join(lines)


def _toml_value(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
