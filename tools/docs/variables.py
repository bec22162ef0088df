"""The environment variables that the code reads, found in its syntax, and what they mean."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest_mlebench
from pytest_mlebench.options import OPTIONS

_PROGRAMS_OF_AGENTS = {"templates", "agent"}
_WE_SET = {
    "CUDA_VISIBLE_DEVICES",  # by the engine of a cluster, for the runs of its job
    "COMP_LINE",
    "MLEBENCH_RAY_ACTOR",
    "SLURM_JOB_ID",
    "SLURM_RESTART_COUNT",
}

VARIABLES = {
    "MLEBENCH_DATA_DIR": "folder of the competitions' data",
    "MLEBENCH_DATA_SOURCE": "where missing data is pulled from",
    "MLEBENCH_GPU_LOCKS": "folder of the locks by which all users of this machine share its GPUs "
    "(default: `/var/tmp/mlebench-gpus`)",
    "MLEBENCH_EPISODES_TOKEN": "the token of `mlebench serve-episodes`, which draws one where it is not set",
    "MLEBENCH_PYTHON": "on a Ray cluster: the Python of the nodes that does the runs, if it is not the session's",
    "MLEBENCH_SLURM_SECONDS": "how often Slurm's `squeue` is asked, in seconds (default: 10)",
    "MLFLOW_TRACKING_URI": "the MLflow server of `mlebench export --to=mlflow` without `--tracking-uri`",
    "RAY_ADDRESS": "the Ray cluster of `--cluster=ray`, where `--cluster-address` does not name one",
    "I_ACCEPT_RUNNING_PRIVILEGED_CONTAINERS": "`true`: as `--allow-privileged`, which MLE-bench calls so",
    "DOCKER_HOST": "where the Docker engine is (default: `unix:///var/run/docker.sock`)",
    "CONTAINER_HOST": "where Podman's service is, `unix://…`, with `--sandbox=podman`",
    "XDG_RUNTIME_DIR": "below it is the socket of a user's Podman",
    "XDG_CACHE_HOME": "below it are the data, in `mlebench`, where nothing else names a folder",
    "XDG_CONFIG_HOME": "below it is Kaggle's `kaggle.json`, where there is no `~/.kaggle`",
    "KAGGLE_API_TOKEN": "Kaggle's access token; `~/.kaggle/access_token` does as well",
    "KAGGLE_USERNAME": "with `KAGGLE_KEY` an API key of Kaggle's older form",
    "KAGGLE_KEY": "see `KAGGLE_USERNAME`",
    "KAGGLE_CONFIG_DIR": "folder of `kaggle.json`",
    "HTTPS_PROXY": "this machine's own proxy, which downloads, model calls and the proxy of sandboxes use; "
    "`HTTP_PROXY` and `NO_PROXY` too, and all three in small letters",
    "PIP_INDEX_URL": "a registry of packages of your own, which builds with `--build-network=registries` may reach",
    "PIP_EXTRA_INDEX_URL": "the same",
    "GITHUB_STEP_SUMMARY": "in a job of GitHub Actions: the file to which the medal table is added",
    "NO_COLOR": "if set, `mlebench` writes no colours",
    "FORCE_COLOR": "if set, it writes them to files and pipes too",
    "TERM": "`dumb`: no colours",
    "PATH": "where programs are looked for, which agents in the local sandbox find as well",
}
"""Meanings by name."""

_BY_LIBRARIES = {"KAGGLE_API_TOKEN", "HTTPS_PROXY"}
"""What packages that we use read for us."""


def variables_read() -> set[str]:
    """The names of all variables that the package reads for its user."""
    found = {option.variable for option in OPTIONS.values() if option.variable} | _BY_LIBRARIES
    root = Path(pytest_mlebench.__file__).parent
    for file in root.rglob("*.py"):
        if _PROGRAMS_OF_AGENTS.isdisjoint(file.parts):
            found.update(_Reader(ast.parse(file.read_text(encoding="utf-8"))).names())
    return {name for name in found - _WE_SET if name.isupper()}


class _Reader:
    """One module's syntax: the constants by name, and the places that read variables."""

    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree
        self._values: dict[str, list[str]] = {}
        for node in ast.walk(tree):
            for target, value in _bindings(node):
                self._values.setdefault(target, []).extend(_texts(value))
        for node in ast.walk(tree):  # a name that stands for another one
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
    """The name of the variable, where the node is ``os.environ[…]``, ``os.environ.get(…)`` or ``os.getenv(…)``."""
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
