"""What a run is given of this machine: variables, as far as the user granted them, and data that hides its origin."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pytest_mlebench.agents import Agent, Permissions
from pytest_mlebench.agents.definition import Launch
from pytest_mlebench.data.dataset import Dataset, keep_level, level_file
from pytest_mlebench.errors import AgentError, SandboxError
from pytest_mlebench.io.processes import dead_folders, owned
from pytest_mlebench.records.outcome import SandboxAccount
from pytest_mlebench.sandbox.local.sandbox import link_tree
from pytest_mlebench.sandbox.network.policy import Endpoint, endpoints

if TYPE_CHECKING:
    from pytest_mlebench.llm.accounting import GatewaySettings
    from pytest_mlebench.llm.providers import Provider


NAME = "competition"
"""What an obfuscated competition is called."""
_FOLDER = ".shown-"
_KEPT = ".kept-"


@contextmanager
def obfuscated_data(dataset: Dataset, *, keep: bool) -> Iterator[Path]:
    """A folder with the public files, hard-linked where possible, and the obfuscated description.

    It lies in the data folder, and is removed afterwards unless ``keep``. Raises SandboxError where it cannot be made,
    CompetitionError where there is no such description.
    """
    text = dataset.competition.obfuscated_description.read_text(encoding="utf-8")
    store = dataset.folder.parent
    for dead in dead_folders(_FOLDER, [store]):
        shutil.rmtree(dead, ignore_errors=True)
    try:
        folder = Path(tempfile.mkdtemp(prefix=_KEPT if keep else owned(_FOLDER), dir=store)).absolute()
    except OSError as error:
        raise SandboxError(
            f"data folder {store} cannot be written, which --description=obfuscated needs: {error.strerror}"
        ) from error
    try:
        try:
            link_tree(dataset.public, folder)
            (folder / "description.md").unlink(missing_ok=True)
            (folder / "description.md").write_text(text, encoding="utf-8")
        except OSError as error:
            raise SandboxError(f"the public files cannot be linked below {folder}: {error.strerror}") from error
        for path in (folder, *(path for path in folder.rglob("*") if path.is_dir())):
            path.chmod(0o755)
        level_file(folder / "description.md")
        keep_level(folder)
        yield folder
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


_MAX_HOSTS = 100


def run_environment(
    agent: Agent,
    permissions: Permissions,
    gateway: GatewaySettings | None,
    environment: Mapping[str, str] = os.environ,
    *,
    replayed: bool = False,
) -> dict[str, str]:
    """The variables of the harness's environment that a run of an agent may use.

    These are the secrets that the user granted, and keys and addresses of model providers, which the gateway replaces.
    Raises AgentError for a secret that was not granted, and for a provider's address that the agent moves elsewhere:
    the gateway would send the provider's key there.
    """
    providers = [] if gateway is None else list(gateway.providers.values())
    ready = [own for own in providers if replayed or not own.keys or own.key(environment)]
    of_gateway = {name for provider in providers for name in (*provider.keys, *provider.url_variables)}
    permissions.check_secrets(agent, of_gateway)
    for provider in providers:
        _check_place(agent, provider, providers, permissions, environment)
    names = {name for provider in ready for name in (*provider.keys, *provider.url_variables)}
    names |= {*permissions.allow_secrets} & {*agent.secret_names}
    return {name: environment[name] for name in names if environment.get(name)}


def _check_place(
    agent: Agent,
    provider: Provider,
    providers: Iterable[Provider],
    permissions: Permissions,
    environment: Mapping[str, str],
) -> None:
    own = {_origin(provider.base_url), _origin(provider.located(environment).base_url)}
    for name in provider.url_variables:
        url = agent.env_vars.get(name, "")
        if "://" not in url or any(other.is_above(url) for other in providers):
            continue
        if any(sign in url for sign in "\\@"):
            raise AgentError(f"agent {agent.id}: {name} is {url!r:.100}; an address has neither '@' nor '\\'")
        place = Endpoint.parse(url)
        permitted = any(Endpoint.parse(text).covers(place) for text in permissions.allow_hosts)
        if _origin(url) not in own and not permitted:
            raise AgentError(
                f"agent {agent.id}: its {name} would have the key of {provider.name} sent to {place}, which you have "
                f"not permitted: set ${name} in your own environment to have the provider there, or allow it with "
                f"--allow-host={place} (in Python: Permissions(allow_hosts=[{str(place)!r}]))"
            )


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port


def check_hosts(agent: Agent, permissions: Permissions, gateway: GatewaySettings | None) -> None:
    """See that the user permits each host that an agent wants to reach; raises SandboxError for the first other one."""
    known = [] if gateway is None else list(gateway.providers.values())
    through_gateway = {own.host for provider in known for own in (provider, provider.located())}
    endpoints(agent, Launch(environment=agent.env_vars), permissions.allow_hosts, without=through_gateway)


def permissions_of_run(
    agent: Agent, permissions: Permissions, gateway: GatewaySettings | None, account: SandboxAccount
) -> dict[str, Any]:
    """For a run's record: what the user granted that concerns its agent, and which permissions the run used.

    ``used`` holds ``secrets`` given in plain, ``hosts`` reached directly, ``no_isolation`` and ``privileged``;
    ``bundled`` says that the package permits what the agent's definition asks for.
    """
    providers = () if gateway is None else gateway.providers.values()
    replaced = {name for provider in providers for name in (*provider.keys, *provider.url_variables)}
    granted = {
        **permissions.to_json(),
        "allow_secrets": sorted({*permissions.allow_secrets} & {*agent.secret_names}),
        "trust_agents": [agent.id] if agent.id in permissions.trust_agents else [],
    }
    return {
        "bundled": agent.bundled,
        "granted": {name: value for name, value in granted.items() if value},
        "used": used_permissions(account, sorted({*permissions.allow_secrets} & {*agent.secret_names} - replaced)),
    }


def used_permissions(account: SandboxAccount, secrets: list[str]) -> dict[str, Any]:
    """Which permissions a run used, by its sandbox's account; ``secrets`` are those that it was given in plain."""
    hosts = {f"{made.host}:{made.port}" for made in account.connections if made.allowed}
    used = {
        "secrets": secrets,
        "hosts": sorted(hosts)[:_MAX_HOSTS],
        "no_isolation": account.name == "local",
        "privileged": account.privileged,
    }
    return {name: value for name, value in used.items() if value}
