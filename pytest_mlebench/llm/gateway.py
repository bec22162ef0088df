"""The gateway of one run: the only way from its sandbox to language models.

It is an aiohttp server and an aiohttp client in a thread of their own. Starlette with uvicorn and httpx was the other
choice: measured side by side (2 cores, the same upstream), aiohttp added 0.5 ms to a call and to a stream's first
event, the other 6 ms, mostly the client's; 200 streams took 0.4 s against 2.9 s, memory was 43 MB against 53 MB. And it
is one package for both ends.

The socket is bound before the server is imported, and the thread imports while the sandbox starts: a run waits for
nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType

from pytest_mlebench.errors import SandboxError
from pytest_mlebench.llm.accounting import Accounting
from pytest_mlebench.llm.ledger import Totals
from pytest_mlebench.llm.providers import Provider
from pytest_mlebench.llm.settings import BACKLOG, GatewaySettings

_STOP_SECONDS = 15.0


class Gateway:
    """Lets one run's agent reach the providers it is given, with the run's ``token`` in place of their keys.

    Use it as a context manager: within, it listens on ``unix_socket``, or else on a free port of 127.0.0.1, and is at
    ``url``; afterwards the token is worthless and ``totals`` are complete. ``account_folder`` is the run group's.
    ``secrets`` are kept out of what it writes; ``replay`` is the run whose recording answers in place of providers.
    Raises SandboxError where it cannot listen or write.
    """

    def __init__(
        self,
        settings: GatewaySettings,
        providers: Iterable[Provider],
        *,
        run_dir: Path,
        account_folder: Path | None = None,
        unix_socket: Path | None = None,
        secrets: Iterable[str] = (),
        replay: Path | None = None,
    ) -> None:
        self.token = new_token()
        self.url = ""
        self.providers = {provider.name: provider for provider in providers}
        self._keys = {name: "" if replay else provider.key() for name, provider in self.providers.items()}
        self._settings = settings
        self._run_dir = run_dir
        self._account_folder = account_folder or run_dir
        self._unix_socket = unix_socket
        self._secrets = {*secrets, *filter(None, self._keys.values()), self.token}
        self._replay = replay
        self._thread = threading.Thread(target=self._run, name="llm-gateway", daemon=True)
        self._stopping = threading.Event()
        self._stop: Callable[[], None] = lambda: None
        self._failed: BaseException | None = None

    @property
    def totals(self) -> Totals:
        return self._accounting.totals

    def __enter__(self) -> Gateway:
        try:
            self._accounting = Accounting(self._settings, self._run_dir, self._account_folder, secrets=self._secrets)
            self._socket = self._listen()
        except OSError as error:
            raise SandboxError(f"the gateway to language models cannot start: {error}") from error
        self._thread.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End all calls and listen no more; does nothing where that was done before."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        self._stop()
        self._thread.join(_STOP_SECONDS)
        self._socket.close()
        if self._unix_socket is not None:
            self._unix_socket.unlink(missing_ok=True)
        self._accounting.close()
        if self._failed is not None:
            raise SandboxError(f"the gateway to language models failed: {self._failed}") from self._failed

    def _listen(self) -> socket.socket:
        if self._unix_socket is None:
            listening = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
            self.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        else:
            listening = socket.socket(socket.AF_UNIX)
            listening.bind(str(self._unix_socket))
            self._unix_socket.chmod(0o666)  # root in the container may be nobody here; the folder around it is private
            listening.listen(BACKLOG)
        listening.setblocking(False)
        return listening

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            self._failed = error

    async def _serve(self) -> None:
        from pytest_mlebench.llm.service import Service  # aiohttp takes a quarter of a second

        loop, stopped = asyncio.get_running_loop(), asyncio.Event()

        def stop() -> None:
            with contextlib.suppress(RuntimeError):  # it has ended
                loop.call_soon_threadsafe(stopped.set)

        self._stop = stop
        if self._stopping.is_set():
            return
        service = Service(
            self._settings, self.providers, self._accounting, token=self.token, keys=self._keys, replay=self._replay
        )
        async with service.listening(self._socket):
            await stopped.wait()


def new_token() -> str:
    """A token for one run; clients that look at a key's form find what they expect."""
    return f"sk-mlebench-{secrets.token_hex(24)}"
