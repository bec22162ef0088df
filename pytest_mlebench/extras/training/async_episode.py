"""Episodes for programs with an event loop: the same methods as coroutines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Self, TypeVar

from pytest_mlebench.extras.training.client import RemoteEpisode
from pytest_mlebench.extras.training.episode import Episode
from pytest_mlebench.extras.training.observation import CommandResult, Observation
from pytest_mlebench.records.outcome import Report

_Result = TypeVar("_Result")


class AsyncEpisode:
    """A local or remote episode. Its calls run in a separate thread, one after the other.

    A cancelled call still runs to its end there, and later calls wait for it.

    >>> import asyncio
    >>> from pytest_mlebench import Bench
    >>> async def play() -> str:
    ...     async with AsyncEpisode(Bench(sandbox="local").episode("smoke-diabetes", data="real")) as episode:
    ...         await episode.reset(seed=0)
    ...         return (await episode.step("echo $((6 * 7))")).output
    >>> asyncio.run(play())
    '42\\n'
    """

    def __init__(self, episode: Episode | RemoteEpisode) -> None:
        self._episode, self._thread = episode, ThreadPoolExecutor(1, thread_name_prefix="mlebench-episode")
        self._is_closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def reset(self, seed: int | None = None) -> Observation:
        return await self._call(self._episode.reset, seed)

    async def step(self, command: str, *, timeout: float | None = None) -> CommandResult:
        return await self._call(self._episode.step, command, timeout=timeout)

    async def read_file(self, path: str) -> bytes:
        return await self._call(self._episode.read_file, path)

    async def write_file(self, path: str, data: bytes | str) -> None:
        await self._call(self._episode.write_file, path, data)

    async def submit(self) -> Report:
        return await self._call(self._episode.submit)

    async def close(self) -> None:
        """End the episode; afterwards, only this method can be called."""
        if not self._is_closed:
            await self._call(self._episode.close)
            self._is_closed = True
            self._thread.shutdown(wait=False)

    async def _call(self, function: Callable[..., _Result], *arguments: Any, **options: Any) -> _Result:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, partial(function, *arguments, **options))
