"""The engines that are installed, by the name that ``--cluster`` gives them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from pytest_mlebench.errors import ClusterError
from pytest_mlebench.extras.engines.contract import Engine
from pytest_mlebench.io.extensions import extensions, load_extension
from pytest_mlebench.options import Settings

ENGINES = "mlebench.engines"
"""Entry points of functions ``(settings, secret names) -> Engine``; without settings, an engine that is asked for jobs
that were submitted before."""


def engine(name: str, settings: Settings | None = None, secret_names: tuple[str, ...] = ()) -> Engine:
    """The engine of this name; raises ClusterError where none is installed, or its options cannot be read."""
    create: Callable[[Settings | None, tuple[str, ...]], Engine] | None = load_extension(ENGINES, name)
    if create is None:
        raise ClusterError(f"no engine {name} is installed; there are {', '.join(sorted(extensions(ENGINES)))}")
    return create(settings, secret_names)


def engines() -> Mapping[str, Callable[[], Engine]]:
    """Makes each engine without a user's options, to ask for jobs that were submitted before."""
    return {name: partial(engine, name) for name in extensions(ENGINES)}
