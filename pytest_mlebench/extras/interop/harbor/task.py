"""Writes a competition as a Harbor task folder.

::

    task.toml  instruction.md
    environment/   the agent's image: public data, the submission checker
    tests/         the verifier's image: answers and the grader, in a separate container
    solution/      for Harbor's agent ``oracle``: a submission that earns a medal
"""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_mlebench.catalog.competition import read_text
from pytest_mlebench.data import dataset as data_dataset
from pytest_mlebench.data.dataset import OBFUSCATED, Dataset
from pytest_mlebench.errors import UsageError
from pytest_mlebench.extras.interop.harbor import data, wheel
from pytest_mlebench.extras.interop.harbor.data import ANSWERS, DATA, TaskData
from pytest_mlebench.io.files import bundled
from pytest_mlebench.io.values import loads
from pytest_mlebench.sandbox.contract import render_instructions
from pytest_mlebench.sandbox.network.policy import Destination

if TYPE_CHECKING:
    from pytest_mlebench.options import Settings
    from pytest_mlebench.sandbox import Limits

SCHEMA_VERSION = "1.3"
ORGANISATION = "mlebench"
HIDDEN = re.compile(r"competition-[0-9a-f]{8}")
"""Task names that do not reveal the competition."""
SUBMISSION = "/home/submission/submission.csv"
TASK_FILE = "tests/task.json"
"""Description of a task for the verifier and for imports."""
BASE_IMAGE = "debian:bookworm-slim"
USER = "nonroot"
"""Agents run as this user. The submission checker belongs to root."""
_BUILD_SECONDS = 1800.0
_GRADING_EXTRA_SECONDS = 120.0
"""Time for starting Python, and for grading the sample submission."""
_TEMPLATES = Path(__file__).with_name("templates")
_NOT_FOR_AGENTS = ("prepare.py", "synthetic.py", "twin.py")
"""Withheld, since anyone with the complete real data could derive the answers from the way it was split."""


@dataclass(frozen=True, kw_only=True)
class TaskOptions:
    """Options that all tasks of an export share."""

    settings: Settings
    limits: Limits
    reward: str = "percentile"
    image_prefix: str = ""
    """Name prefix of images that the user pushes. If empty, Harbor builds the images."""
    include_real_data: bool = False

    @property
    def is_obfuscated(self) -> bool:
        return self.settings.description == OBFUSCATED


@dataclass(frozen=True, kw_only=True)
class HarborTask:
    """A competition's task. In the agent's container, ``name`` is the competition's only name."""

    name: str
    dataset: Dataset
    options: TaskOptions
    source: TaskData | None = None
    """Source from which its containers pull data; None if they do not."""

    @property
    def is_copied(self) -> bool:
        """Whether the images include the data. Data that is neither copied nor pulled is mounted."""
        return self.source is None and (self.options.include_real_data or is_public_data(self.dataset))

    @property
    def images(self) -> Mapping[str, str]:
        """Names of the images that the user builds and pushes, by the folder of the Dockerfile."""
        if not self.options.image_prefix:
            return {}
        name = f"{self.options.image_prefix}{self.name}".lower()  # image names must be lower case
        return {"environment": name, "tests": f"{name}-verifier"}

    @property
    def description(self) -> Path:
        """The description that the agent reads."""
        if self.options.is_obfuscated:
            return self.dataset.competition.obfuscated_description
        return self.dataset.public / "description.md"

    @property
    def instruction(self) -> str:
        text = render_instructions(
            data=DATA,
            submission="/home/submission",
            logs="/home/logs",
            code="/home/code",
            validate="/home/validate_submission.sh",
            limits=self.options.limits,
        )
        return f"{text}\n---\n\n{read_text(self.description)}"

    @property
    def pulling_seconds(self) -> float:
        return 0.0 if self.source is None else self.source.seconds


def is_public_data(dataset: Dataset) -> bool:
    """Whether the data may be copied anywhere, since it is generated or comes with a library."""
    competition = dataset.competition
    return competition.is_twin or dataset.is_synthetic or competition.source == "bundled"


def write_task(folder: Path, task: HarborTask, solution: Path | None) -> None:
    """Write a task into a folder that does not exist yet. Raises OSError."""
    folder.mkdir(parents=True)
    (folder / "task.toml").write_text(to_toml(_config(task)), encoding="utf-8")
    (folder / "instruction.md").write_text(task.instruction, encoding="utf-8")
    _write_environment(folder / "environment", task)
    _write_tests(folder / "tests", task)
    if solution is not None:
        (folder / "solution").mkdir()
        _copy_program(_TEMPLATES / "solve.sh", folder / "solution")
        shutil.copyfile(solution, folder / "solution" / "submission.csv")
    _set_times(folder)


def _config(task: HarborTask) -> dict[str, Any]:
    """The content of ``task.toml``."""
    limits, settings = task.options.limits, task.options.settings
    return {
        "schema_version": SCHEMA_VERSION,
        "artifacts": [SUBMISSION],
        **_identity(task),
        "agent": {"timeout_sec": float(limits.time_limit), "user": USER},
        "verifier": {
            "timeout_sec": 2 * settings.grading_time + _GRADING_EXTRA_SECONDS + task.pulling_seconds,
            "environment_mode": "separate",
            "environment": {
                "build_timeout_sec": _BUILD_SECONDS,
                "memory_mb": _megabytes(settings.grading_memory),
                "docker_image": task.images.get("tests"),
            },
        },
        "environment": {
            "build_timeout_sec": _BUILD_SECONDS + task.pulling_seconds,
            **network(settings),
            "cpus": limits.cpus,
            "memory_mb": _megabytes(limits.memory),
            "storage_mb": _megabytes(limits.disk),
            "gpus": limits.gpus or None,
            "docker_image": task.images.get("environment"),
        },
    }


def _identity(task: HarborTask) -> dict[str, Any]:
    """The parts of ``task.toml`` that name the competition, or hide it."""
    dataset, reward = task.dataset, task.options.reward
    competition = dataset.competition
    name, keywords = f"{ORGANISATION}/{task.name}", ["machine-learning", "mle-bench"]
    if task.options.is_obfuscated:
        return {"task": {"name": name, "keywords": keywords}, "metadata": {"reward": reward}}
    return {
        "task": {
            "name": name,
            "description": competition.title,
            "keywords": [*keywords, competition.split_label, competition.category],
        },
        "metadata": {
            "competition_id": competition.id,
            "bench_version": competition.version,
            "data": "twin" if competition.is_twin else "synthetic" if dataset.is_synthetic else "real",
            "reward": reward,
            "category": competition.category,
            "metric": competition.metric,
        },
    }


def network(settings: Settings) -> dict[str, Any]:
    """The network of the agent's container. By default it is open, since Harbor's agents are installed there."""
    if settings.network == "none":
        return {"network_mode": "no-network"}
    if settings.allow_hosts:
        return {"network_mode": "allowlist", "allowed_hosts": [_host(text) for text in settings.allow_hosts]}
    return {"network_mode": "public"}


def _host(text: str) -> str:
    """The name of an allowed host. Harbor cannot limit ports, so ports other than 80 and 443 raise UsageError."""
    endpoint = Destination.parse(text)
    if endpoint.port not in (80, 443):
        raise UsageError(f"--allow-host={text}: Harbor limits hosts, not ports: write --allow-host={endpoint.host}")
    return endpoint.host


def _write_environment(folder: Path, task: HarborTask) -> None:
    dataset, programs = task.dataset, folder / "mlebench"
    competition = dataset.competition
    checker = programs / "checker"
    checker.mkdir(parents=True)
    _write_grading_layers(programs, task)
    (folder / "instructions.txt").write_text(task.instruction, encoding="utf-8")
    shutil.copyfile(bundled("environment") / "requirements.txt", programs / "agent.txt")
    _copy_program(_TEMPLATES / "validate_submission.sh", programs)
    shutil.copyfile(Path(__file__).with_name("check.py"), checker / "check.py")
    form = {
        "competition_id": task.name,
        "bench_version": competition.version,
        "sample_submission": competition.sample_submission,
        "max_submission_bytes": task.options.settings.max_submission_size,
    }
    (checker / "checker.json").write_text(json.dumps(form) + "\n", encoding="utf-8")
    for file in competition.files:
        if file.suffix == ".py" and file.name not in _NOT_FOR_AGENTS:
            copy = _copy_below(file, competition.folder, checker / task.name)
            if task.options.is_obfuscated:
                copy.write_text(without_comments(file.read_text(encoding="utf-8")), encoding="utf-8")
    lines = ""
    if task.source is not None:
        lines = "COPY mlebench/fetch.py /opt/mlebench/"
        shutil.copyfile(Path(__file__).with_name("fetch.py"), programs / "fetch.py")
        if task.options.is_obfuscated:  # replaces the pulled description
            lines = "COPY mlebench/fetch.py mlebench/description.md /opt/mlebench/"
            shutil.copyfile(task.description, programs / "description.md")
        data.write_compose(folder, data.pulls_public(dataset, task.source, task.images.get("environment")))
    elif not task.is_copied:
        data.write_compose(folder, data.mounts(dataset, "public", DATA))
    else:
        lines = f"COPY data {DATA}"
        data_dataset.level(dataset.public, folder / "data")
        if task.options.is_obfuscated:
            (folder / "data/description.md").unlink(missing_ok=True)
            shutil.copyfile(task.description, folder / "data/description.md")
    _write_dockerfile(folder, task, "environment", data=lines)


def _write_tests(folder: Path, task: HarborTask) -> None:
    dataset, settings = task.dataset, task.options.settings
    competition = dataset.competition
    (folder / "mlebench").mkdir(parents=True)
    _write_dockerfile(folder, task, "tests")
    _write_grading_layers(folder / "mlebench", task)
    shutil.copyfile(Path(__file__).with_name("verify.py"), folder / "verify.py")
    for file in competition.files:
        _copy_below(file, competition.folder, folder / "competitions" / competition.id)
    twin = dataset.twin
    about = {
        "competition_id": competition.id,
        "bench_version": competition.version,
        "data": f"twin:{twin['key']}:{twin['size']}" if twin else "real",
        "description": OBFUSCATED if task.options.is_obfuscated else dataset.description,
        "reward": task.options.reward,
        "max_submission_bytes": settings.max_submission_size,
        "grading_memory": settings.grading_memory,
        "grading_time": settings.grading_time,
    }
    (folder.parent / TASK_FILE).write_text(json.dumps(about) + "\n", encoding="utf-8")
    answers = Dataset(competition, folder / "data")
    answers.folder.mkdir()
    if competition.is_twin:  # its medals, but not the seed that generates its answers
        medals = loads(dataset.twin_record.read_bytes())["medals"]
        answers.twin_record.write_text(json.dumps({"medals": medals}) + "\n", encoding="utf-8")
    if dataset.is_synthetic:
        answers.state_file.write_text('{"synthetic": true}\n', encoding="utf-8")
    _write_answers(folder, answers, task)


def _write_answers(folder: Path, answers: Dataset, task: HarborTask) -> None:
    """Write the verifier's script, and its data unless that is pulled or mounted."""
    dataset, pull = task.dataset, ""
    target = f"{ANSWERS}/{dataset.prepared.name}"
    if task.source is not None:
        wanted = task.source.wanted(dataset, "private", dataset.competition.sample_submission, show="")
        shutil.copyfile(Path(__file__).with_name("fetch.py"), folder / "fetch.py")
        data.write_compose(folder, {"services": {"main": {"environment": task.source.variables}}})
        pull = f"$python -I /tests/fetch.py {shlex.quote(wanted)} {target} || exit\n"
    elif not task.is_copied:
        data.write_compose(folder, data.mounts(dataset, "", target))
    else:
        answers.prepared.mkdir()
        data_dataset.level(dataset.private, answers.private)
        answers.sample_submission.parent.mkdir(exist_ok=True)
        if not answers.sample_submission.exists():
            shutil.copyfile(dataset.sample_submission, answers.sample_submission)
    script = (_TEMPLATES / "test.sh").read_text(encoding="utf-8")
    (folder / "test.sh").write_text(_filled(script, {"PULL": pull}), encoding="utf-8")
    (folder / "test.sh").chmod(0o755)


def _write_dockerfile(folder: Path, task: HarborTask, name: str, data: str = "") -> None:
    values = {
        "WHAT": {"environment": "The agent's environment", "tests": "The verifier"}[name],
        "ID": task.name,
        "BASE_IMAGE": task.options.settings.base_image or BASE_IMAGE,
        "WHEEL": wheel.NAME,
        "TIME_LIMIT": f"{task.options.limits.time_limit:g}",
        "DATA": data,
        "USER": USER,
    }
    text = "".join((_TEMPLATES / part).read_text(encoding="utf-8") for part in ("layers", name))
    (folder / "Dockerfile").write_text(_filled(text, values), encoding="utf-8")


def _write_grading_layers(folder: Path, task: HarborTask) -> None:
    wheel.write_wheel(folder / wheel.NAME, pulls=task.source is not None)
    libraries = (*wheel.LIBRARIES, *(() if task.source is None else task.source.libraries))
    # Other versions may round differently.
    pinned = "".join(f"{name}=={version(name)}\n" for name in libraries)
    (folder / "requirements.txt").write_text(pinned, encoding="utf-8")


def without_comments(code: str) -> str:
    """Remove comments and docstrings, which may name the competition, from Python code.

    >>> without_comments('def f():\\n    "About cats."\\n    return 1  # cat')
    'def f():\\n    return 1\\n'
    """
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            texts = [part for part in node.body if isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant)]
            node.body = [part for part in node.body if part not in texts] or (
                [] if isinstance(node, ast.Module) else [ast.Pass()]
            )
    return ast.unparse(tree) + "\n"


def _filled(text: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    return text


def _copy_program(file: Path, folder: Path) -> None:
    shutil.copyfile(file, folder / file.name)
    (folder / file.name).chmod(0o755)


def _copy_below(file: Path, source: Path, target: Path) -> Path:
    copy = target / file.relative_to(source)
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, copy)
    return copy


def _set_times(folder: Path) -> None:
    """Set all times to the same value, folders last, since the time of a file may reveal something about it."""
    for path in sorted((folder, *folder.rglob("*")), key=lambda path: len(path.parts), reverse=True):
        os.utime(path, ns=(data_dataset.TIME_NS, data_dataset.TIME_NS), follow_symlinks=False)


def _megabytes(size: int | None) -> int | None:
    return None if size is None else max(1, size >> 20)


def to_toml(values: Mapping[str, Any], prefix: str = "") -> str:
    """Convert strings, numbers, lists of strings, and tables of these to TOML. None is left out.

    >>> print(to_toml({"a": 1, "b": {"c": ["d"], "e": None}}), end="")
    a = 1
    <BLANKLINE>
    [b]
    c = ["d"]
    """
    plain = {name: value for name, value in values.items() if not isinstance(value, Mapping) and value is not None}
    texts = {name: json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f") for name, value in plain.items()}
    lines = [f"{name} = {text}\n" for name, text in texts.items()]
    for name, value in values.items():
        if isinstance(value, Mapping):
            lines.append(f"\n[{prefix}{name}]\n{to_toml(value, f'{prefix}{name}.')}")
    return "".join(lines)
