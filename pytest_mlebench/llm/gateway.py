"""The gateway of one run: the only way from its sandbox to language models.

``Gateway`` is the server. A sandbox opens a ``RunGateway`` for its agent, which selects the agent's providers and
replaces their keys in the sandbox.

An aiohttp server and client run in a separate thread. In our comparison, Starlette with uvicorn and httpx added ten
times as much time to a call. The socket is bound before the server is imported, and the thread imports it while the
sandbox starts, so that a run does not wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import Any

from pytest_mlebench.agents.registry import MIN_SECRET, Agent, Launch
from pytest_mlebench.errors import SandboxError
from pytest_mlebench.llm.accounting import Accounting, GatewaySettings
from pytest_mlebench.llm.api import Provider, proxy_for
from pytest_mlebench.llm.ledger import BODIES
from pytest_mlebench.llm.providers import gateway_url

BACKLOG = 512
"""Maximum number of connections that wait to be accepted. Agents open hundreds at once."""
_STOP_SECONDS = 15.0


@dataclass(eq=False, repr=False)
class Gateway:
    """Lets one run's agent reach its providers, with the run's ``token`` instead of their keys.

    Use it as a context manager. Inside, it listens on ``unix_socket``, or on a free port of 127.0.0.1 at ``url``.
    Afterwards, the token is invalid and ``totals`` are complete. ``account_folder`` is the run group's folder.
    ``secrets`` are removed from all records. ``replay`` is the run whose recording answers instead of providers.
    Raises SandboxError if it cannot listen or write.
    """

    settings: GatewaySettings
    providers: Collection[Provider]
    _: KW_ONLY
    run_dir: Path
    account_folder: Path | None = None
    unix_socket: Path | None = None
    secrets: Iterable[str] = ()
    replay: Path | None = None

    def __post_init__(self) -> None:
        self.token = new_token()
        self.url = ""
        self._keys = {provider.name: "" if self.replay else provider.key() for provider in self.providers}
        self._thread = threading.Thread(target=self._run, name="llm-gateway", daemon=True)
        self._stopping = threading.Event()
        self._stop: Callable[[], None] = lambda: None
        self._failed: BaseException | None = None

    def __enter__(self) -> Gateway:
        try:
            # Shorter ones, such as EMPTY for a server without keys, would match by chance.
            secrets = {key for key in (*self.secrets, *self._keys.values(), self.token) if len(key) >= MIN_SECRET}
            folder = self.account_folder or self.run_dir
            self._accounting = Accounting(self.settings, self.run_dir, folder, secrets=secrets)
            self.totals = self._accounting.totals
            self._socket = self._listen()
        except OSError as error:
            raise SandboxError(f"the gateway to language models cannot start: {error}") from error
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all calls and stop listening. Does nothing if already closed."""
        if self._stopping.is_set():
            return
        self._stopping.set()
        self._stop()
        self._thread.join(_STOP_SECONDS)
        self._socket.close()
        if self.unix_socket is not None:
            self.unix_socket.unlink(missing_ok=True)
        try:
            self._accounting.close()
        except OSError as error:
            self._failed = self._failed or error
        if self._failed is not None:
            raise SandboxError(f"the gateway to language models failed: {self._failed}") from self._failed

    def _listen(self) -> socket.socket:
        if self.unix_socket is None:
            listening = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
            self.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        else:
            listening = socket.socket(socket.AF_UNIX)
            listening.bind(str(self.unix_socket))
            self.unix_socket.chmod(0o666)  # the container's root may be another user here; the parent folder is private
            listening.listen(BACKLOG)
        listening.setblocking(False)
        return listening

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            self._failed = error

    async def _serve(self) -> None:
        from pytest_mlebench.llm.server import Service  # importing aiohttp takes 0.25 s

        loop, stopped = asyncio.get_running_loop(), asyncio.Event()

        def stop() -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(stopped.set)

        self._stop = stop
        if self._stopping.is_set():
            return
        providers = {provider.name: provider for provider in self.providers}
        service = Service(
            self.settings, providers, self._accounting, token=self.token, keys=self._keys, replay=self.replay
        )
        async with service.listening(self._socket, BACKLOG):
            await stopped.wait()


def new_token() -> str:
    """Return a token for one run, in the form of a key, because some clients check that."""
    return f"sk-mlebench-{secrets.token_hex(24)}"


@dataclass(eq=False, repr=False)
class RunGateway:
    """One run's gateway. The sandbox opens it where the agent can reach it, and gives the agent its token and URLs.

    ``variables`` are added to the agent's environment. ``replay`` is the run whose recording answers.
    """

    settings: GatewaySettings
    agent: Agent
    _: KW_ONLY
    run_dir: Path
    variables: Mapping[str, str] = field(default_factory=dict)
    replay: Path | None = None
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)

    def __post_init__(self) -> None:
        replayed = self.replay is not None
        self._providers = providers_of(self.settings, self.agent, self.environment, replayed=replayed)
        self._gateway: Gateway | None = None

    @property
    def hosts(self) -> dict[str, str]:
        """The hosts that the agent may reach only through the gateway.

        Each is mapped to the variable that contains the gateway's address instead; empty if there is none.
        """
        known = (self.settings.providers[provider.name] for provider in self._providers)
        return {provider.host: next(iter(provider.url_variables), "") for provider in (*known, *self._providers)}

    @contextlib.contextmanager
    def open(self, unix_socket: Path | None = None, *, url: str = "") -> Iterator[Launch]:
        """Context manager: listen on ``unix_socket``, which the agent reaches at ``url``, or on a free port.

        Yields how to start the agent: with the token and the gateway's URLs, without keys. Raises SandboxError.
        """
        keys = {key for provider in self._providers if (key := provider.key(self.environment))}
        agent_secrets = {self.environment.get(name, "") for name in self.agent.secret_names}
        with Gateway(
            self.settings,
            self._providers,
            run_dir=self.run_dir,
            account_folder=self.run_dir.parent,
            unix_socket=unix_socket,
            secrets=keys | agent_secrets,
            replay=self.replay,
        ) as gateway:
            self._gateway = gateway
            at, all = url or gateway.url, bool(self.replay)
            launch = keyless(self.agent, self._providers, at, gateway.token, self.environment, all=all)
            yield replace(launch, environment={**self.variables, **launch.environment}, secrets=launch.secrets | keys)

    def account(self) -> dict[str, Any]:
        """Return the totals of the run's calls, for its record."""
        providers = [provider.name for provider in self._providers]
        totals = self._gateway.totals.to_json() if self._gateway is not None else {}
        return {"gateway": "replay" if self.replay else "on", "providers": providers, **totals}


def has_recording(run_dir: Path) -> bool:
    """Return whether a run's model calls can be replayed."""
    return (run_dir / BODIES).exists()


def providers_of(
    settings: GatewaySettings, agent: Agent, environment: Mapping[str, str] = os.environ, *, replayed: bool = False
) -> tuple[Provider, ...]:
    """Return the providers that an agent's definition refers to: by a key, a base URL, or a host if it has no key.

    Base URLs come from the agent's variables, then from ``environment``. Without providers, the agent needs no gateway.
    """
    names, hosts = set(agent.secret_names), {host.partition("://")[2] or host for host in agent.llm_hosts}
    found = []
    for provider in settings.providers.values():
        agent_urls = {
            name: value
            for name, value in _urls(agent).items()
            if name in provider.url_variables and not any(one.is_above(value) for one in settings.providers.values())
        }
        located = provider.located(environment).located(agent_urls)
        if not located.key(environment) and provider.keys and not replayed:
            continue
        if (
            names & {*provider.keys, *provider.url_variables}
            or agent_urls
            or any(provider.is_above(url) or located.is_above(url) for url in _urls(agent).values())
            or (not provider.keys and hosts & {provider.host, located.host})
        ):
            found.append(located)
    return tuple(found)


def keyless(
    agent: Agent,
    providers: tuple[Provider, ...],
    url: str,
    token: str,
    environment: Mapping[str, str] = os.environ,
    *,
    all: bool = False,
) -> Launch:
    """Return how to start an agent that uses the gateway at ``url``, with the token instead of the providers' keys.

    ``all``: replace keys even if they are not set. Raises an AgentError that names the missing secrets.
    """
    stand_ins: dict[str, str] = {}
    for provider in providers:
        stand_ins |= dict.fromkeys(provider.keys, token)
        stand_ins |= dict.fromkeys(provider.url_variables, gateway_url(provider, url))
    given = {name: value for name, value in stand_ins.items() if all or environment.get(name)}
    launch = agent.launch({**environment, **given})
    replaced = {
        name: gateway_url(provider, url)
        for provider in providers
        for name, value in _urls(agent).items()
        if provider.is_above(value)
    }
    return replace(
        launch,
        environment={**stand_ins, **launch.environment, **replaced},
        secrets=frozenset({token} | (launch.secrets - set(stand_ins.values()))),
    )


def check_secrets(settings: GatewaySettings | None, agent: Agent, *, replayed: bool = False) -> None:
    """Check an agent's secrets before anything runs. Raises AgentError if some are not set, and UsageError if a key, or
    the machine's proxy, is invalid."""
    if settings is None:
        agent.launch()
    else:
        providers = providers_of(settings, agent, replayed=replayed)
        if not replayed:
            for provider in providers:
                provider.check_key()
                proxy_for(provider.base_url)
        keyless(agent, providers, "http://localhost", new_token(), all=replayed)


def _urls(agent: Agent) -> dict[str, str]:
    return {name: value for name, value in agent.env_vars.items() if value.startswith(("http://", "https://"))}
