"""The gateway as a run sees it: which providers its agent gets, and what stands for their keys in its sandbox."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_mlebench.agents.definition import Agent, Launch
from pytest_mlebench.errors import AgentError
from pytest_mlebench.llm.gateway import Gateway, new_token
from pytest_mlebench.llm.providers import Provider, gateway_url
from pytest_mlebench.llm.settings import GatewaySettings


class RunGateway:
    """One run's gateway: a sandbox opens it where its agent reaches it, and starts the agent with what that gives.

    ``variables`` are further ones of the agent's environment; ``replay`` is the run whose recording answers.
    """

    def __init__(
        self,
        settings: GatewaySettings,
        agent: Agent,
        *,
        run_dir: Path,
        variables: Mapping[str, str] | None = None,
        replay: Path | None = None,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._settings = settings
        self._agent = agent
        self._run_dir = run_dir
        self._variables = dict(variables or {})
        self._replay = replay
        self._environment = environment
        self._providers = providers_of(settings, agent, environment, replayed=replay is not None)
        self._gateway: Gateway | None = None

    @property
    def hosts(self) -> dict[str, str]:
        """The hosts that the agent reaches through the gateway, and therefore in no other way.

        Each with the variable that has the gateway's address in its place; empty where there is none.
        """
        known = (self._settings.providers[provider.name] for provider in self._providers)
        return {provider.host: next(iter(provider.url_variables), "") for provider in (*known, *self._providers)}

    @contextmanager
    def open(self, unix_socket: Path | None = None, *, url: str = "") -> Iterator[Launch]:
        """Within, the gateway listens on ``unix_socket``, which the agent reaches at ``url``; or else on a free port.

        Gives what the agent is started with: tokens and the gateway's URLs, no key. Raises SandboxError.
        """
        keys = {key for provider in self._providers if (key := provider.key(self._environment))}
        with Gateway(
            self._settings,
            self._providers,
            run_dir=self._run_dir,
            account_folder=self._run_dir.parent,
            unix_socket=unix_socket,
            secrets=keys | _other_secrets(self._agent, self._environment),
            replay=self._replay,
        ) as gateway:
            self._gateway = gateway
            launch = keyless(
                self._agent,
                self._providers,
                url or gateway.url,
                gateway.token,
                self._environment,
                all=bool(self._replay),
            )
            yield replace(launch, environment={**self._variables, **launch.environment}, secrets=launch.secrets | keys)

    def account(self) -> dict[str, Any]:
        """For the run's record: the totals of its calls."""
        providers = [provider.name for provider in self._providers]
        totals = self._gateway.totals.to_json() if self._gateway is not None else {}
        return {"gateway": "replay" if self._replay else "on", "providers": providers, **totals}


def providers_of(
    settings: GatewaySettings, agent: Agent, environment: Mapping[str, str] = os.environ, *, replayed: bool = False
) -> tuple[Provider, ...]:
    """The providers that an agent's definition speaks of: by a key, a base URL, or, where there is no key, a host.

    Each is where the agent's own variables have it, or the harness's. None: the agent needs no gateway.
    """
    names, hosts = set(agent.secret_names), {host.partition("://")[2] or host for host in agent.llm_hosts}
    found = []
    for provider in settings.providers.values():
        own = {name: value for name, value in _urls(agent).items() if name in provider.url_variables}
        own = {
            name: value
            for name, value in own.items()
            if not any(other.is_above(value) for other in settings.providers.values())
        }
        there = provider.located(environment).located(own)
        if not there.key(environment) and provider.keys and not replayed:
            continue
        if (
            names & {*provider.keys, *provider.url_variables}
            or own
            or any(provider.is_above(url) or there.is_above(url) for url in _urls(agent).values())
            or (not provider.keys and hosts & {provider.host, there.host})
        ):
            found.append(there)
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
    """What starts an agent that reaches providers by the gateway at ``url``: the token stands for their keys.

    ``all``: also for keys that the environment does not have. Raises AgentError that names the secrets it lacks.
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
    """Raise AgentError for secrets of an agent that are not set, UsageError for a key that cannot be one, before
    anything runs."""
    if settings is None:
        agent.launch()
    else:
        providers = providers_of(settings, agent, replayed=replayed)
        if not replayed:
            for provider in providers:
                provider.check_key()
        keyless(agent, providers, "http://localhost", new_token(), all=replayed)


def _urls(agent: Agent) -> dict[str, str]:
    return {name: value for name, value in agent.env_vars.items() if value.startswith(("http://", "https://"))}


def _other_secrets(agent: Agent, environment: Mapping[str, str]) -> set[str]:
    try:
        return set(agent.launch(environment).secrets)
    except AgentError:  # keys are missing, as in a replay
        return set()
