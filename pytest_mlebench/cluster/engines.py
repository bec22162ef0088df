"""The engines, by the name that ``--cluster`` gives them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pytest_mlebench.cluster.contract import Engine


def _local() -> Engine:
    from pytest_mlebench.cluster.local import LocalEngine

    return LocalEngine()


def _slurm() -> Engine:
    from pytest_mlebench.cluster.slurm import SlurmEngine

    return SlurmEngine()


def _ray() -> Engine:
    from pytest_mlebench.cluster.ray import RayEngine

    return RayEngine()


ENGINES: Mapping[str, Callable[[], Engine]] = {"local": _local, "slurm": _slurm, "ray": _ray}
"""Makes each engine without a user's options, to ask for jobs that were submitted before."""
