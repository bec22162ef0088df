"""The environment variables that the code reads, found in its syntax trees, and their meanings."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest_mlebench
from pytest_mlebench.options import OPTIONS

_PROGRAMS_OF_AGENTS = {"templates", "agent"}
_WE_SET = {
    "CUDA_VISIBLE_DEVICES",  # set by the cluster's engine for the runs of a job
    "COMP_LINE",
    "MLEBENCH_RAY_ACTOR",
    "SLURM_JOB_ID",
    "SLURM_RESTART_COUNT",
}

VARIABLES = {
    "MLEBENCH_DATA_DIR": "folder of the competitions' data",
    "MLEBENCH_DATA_SOURCE": "URL from which missing data is fetched",
    "MLEBENCH_GPU_LOCKS": "folder of the locks by which all users of this machine share its GPUs "
    "(default: `/var/tmp/mlebench-gpus`)",
    "MLEBENCH_EPISODES_TOKEN": "the token of `mlebench serve-episodes`, which generates one if it is not set",
    "MLEBENCH_PYTHON": "on a Ray cluster: the nodes' Python interpreter for runs, if it is not the session's",
    "MLEBENCH_SLURM_SECONDS": "interval between calls of Slurm's `squeue`, in seconds (default: 10)",
    "MLFLOW_TRACKING_URI": "the MLflow server of `mlebench export --to=mlflow` without `--tracking-uri`",
    "RAY_ADDRESS": "the Ray cluster for `--cluster=ray`, if `--cluster-address` is not set",
    "I_ACCEPT_RUNNING_PRIVILEGED_CONTAINERS": "`true`: the same as `--allow-privileged` (the name in MLE-bench)",
    "DOCKER_HOST": "address of Docker (default: `unix:///var/run/docker.sock`)",
    "CONTAINER_HOST": "with `--sandbox=podman`: address of Podman's service, `unix://…`",
    "XDG_RUNTIME_DIR": "folder that contains the socket of a user's Podman",
    "XDG_CACHE_HOME": "the default data folder is `mlebench` in this folder",
    "XDG_CONFIG_HOME": "folder that contains `kaggle/kaggle.json`, if there is no `~/.kaggle`",
    "KAGGLE_API_TOKEN": "Kaggle access token, instead of `~/.kaggle/access_token`",
    "KAGGLE_USERNAME": "with `KAGGLE_KEY`: Kaggle's older type of API key",
    "KAGGLE_KEY": "see `KAGGLE_USERNAME`",
    "KAGGLE_CONFIG_DIR": "folder of `kaggle.json`",
    "HTTPS_PROXY": "this machine's proxy, for downloads, model calls and the sandboxes' proxy; "
    "also `HTTP_PROXY` and `NO_PROXY`, and all three in lower case",
    "PIP_INDEX_URL": "custom package index that builds with `--build-network=registries` may access",
    "PIP_EXTRA_INDEX_URL": "the same",
    "GITHUB_STEP_SUMMARY": "in GitHub Actions: the file to which the medal table is appended",
    "NO_COLOR": "if set, `mlebench` prints without colours",
    "FORCE_COLOR": "if set, `mlebench` uses colours in files and pipes too",
    "TERM": "`dumb`: no colours",
    "PATH": "search path for programs, also for agents in the local sandbox",
}
"""Meaning of each variable, by name."""

_BY_LIBRARIES = {"KAGGLE_API_TOKEN", "HTTPS_PROXY"}
"""Variables that our dependencies read."""


def variables_read() -> set[str]:
    """Names of all variables that the package reads and that users set."""
    found = {option.variable for option in OPTIONS.values() if option.variable} | _BY_LIBRARIES
    root = Path(pytest_mlebench.__file__).parent
    for file in root.rglob("*.py"):
        if _PROGRAMS_OF_AGENTS.isdisjoint(file.parts):
            found.update(_Reader(ast.parse(file.read_text(encoding="utf-8"))).names())
    return {name for name in found - _WE_SET if name.isupper()}


class _Reader:
    """Reads one module's syntax tree: its constants by name, and the expressions that read variables."""

    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree
        self._values: dict[str, list[str]] = {}
        for node in ast.walk(tree):
            for target, value in _bindings(node):
                self._values.setdefault(target, []).extend(_texts(value))
        for node in ast.walk(tree):  # a name that refers to another one
            for target, value in _bindings(node):
                if isinstance(value, ast.Name):
                    self._values[target].extend(self._values.get(value.id, []))

    def names(self) -> Iterator[str]:
        for node in ast.walk(self._tree):
            argument = _argument(node)
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                yield argument.value
            elif isinstance(argument, ast.Name):
                yield from (text for text in self._values.get(argument.id, []) if text.isupper())


def _bindings(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        yield node.targets[0].id, node.value
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
        yield node.target.id, node.value
    elif isinstance(node, ast.For | ast.comprehension) and isinstance(node.target, ast.Name):
        yield node.target.id, node.iter


def _texts(node: ast.expr) -> list[str]:
    parts = node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else [node]
    return [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]


def _argument(node: ast.AST) -> ast.expr | None:
    """The variable's name, if the node is ``os.environ[…]``, ``os.environ.get(…)`` or ``os.getenv(…)``."""
    if isinstance(node, ast.Subscript) and _is_environment(node.value):
        return node.slice
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
        if node.func.attr == "get" and _is_environment(node.func.value):
            return node.args[0]
        if node.func.attr == "getenv":
            return node.args[0]
    return None


def _is_environment(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "environ"
