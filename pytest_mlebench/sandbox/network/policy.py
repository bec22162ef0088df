"""What an agent may reach: ``none``, ``llm`` (the endpoints of its model's provider), or ``full``."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from pytest_mlebench.agents.registry import Agent, Launch
from pytest_mlebench.errors import SandboxError

Network = Literal["llm", "none", "full"]
NETWORKS: tuple[Network, ...] = ("llm", "none", "full")

HOST_ALIAS = "host.docker.internal"
"""An agent's name for this machine, if its model runs here. It must be listed like any other host."""

_PROVIDERS = {
    "ANTHROPIC_API_KEY": "api.anthropic.com",
    "COHERE_API_KEY": "api.cohere.com",
    "DEEPSEEK_API_KEY": "api.deepseek.com",
    "GEMINI_API_KEY": "generativelanguage.googleapis.com",
    "GOOGLE_API_KEY": "generativelanguage.googleapis.com",
    "GROQ_API_KEY": "api.groq.com",
    "MISTRAL_API_KEY": "api.mistral.ai",
    "OPENAI_API_KEY": "api.openai.com",
    "OPENROUTER_API_KEY": "openrouter.ai",
    "TOGETHER_API_KEY": "api.together.xyz",
    "XAI_API_KEY": "api.x.ai",
}
MODEL_HOSTS = frozenset(_PROVIDERS.values())
"""Hosts of known providers of language models."""
_URL_VARIABLE = re.compile(r"_(BASE_URL|API_BASE|API_URL|ENDPOINT)$")
_URL_INSIDE = re.compile(r"https?://(localhost|127\.0\.0\.1|\[::1\])(?=[:/]|$)")
_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = re.compile(rf"(?:\*\.)?{_LABEL}(?:\.{_LABEL})*")
_MAX_NAME = 253
_LOCAL_NAMES = ("localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback")
_METADATA = (
    *("metadata", "metadata.google.internal", "instance-data", "instance-data.ec2.internal"),
    *("169.254.169.254", "100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254"),
)
"""Metadata services, where clouds hand out their machines' credentials."""
_SECOND_LEVEL = {"ac", "co", "com", "edu", "gov", "net", "or", "org"}
"""Anyone can register names below these in two-letter domains, as in ``co.uk``."""


def is_host_name(host: str) -> bool:
    """Whether ``host``, in lower case, is a name that could be resolved (RFC 1123, and underscores)."""
    return len(host) <= _MAX_NAME and "*" not in host and _NAME.fullmatch(host) is not None


@dataclass(frozen=True)
class Destination:
    """A host and port that may be reached. ``*.example.com`` stands for all names below it, but not for itself.

    ``plain``: it uses HTTP without TLS.
    """

    host: str
    port: int = 443
    plain: bool = False

    @classmethod
    def parse(cls, text: str) -> Destination:
        """Parse ``host``, ``host:port`` or a URL. Only ``http://…`` means HTTP without TLS. Raises SandboxError."""
        url = text if "://" in text else f"https://{text}"
        try:
            parts = urlsplit(url)
            port = parts.port or (80 if parts.scheme == "http" else 443)
        except ValueError as error:
            raise SandboxError(f"{text!r:.300} is not a host that an agent could reach: {error}") from error
        host = (parts.hostname or "").rstrip(".")
        named = len(host) <= _MAX_NAME and _NAME.fullmatch(host) is not None
        if parts.scheme not in ("http", "https") or (not named and as_address(host) is None):
            raise SandboxError(f"{text!r:.300} is not a host that an agent could reach: write host, host:port or a URL")
        if parts.scheme == "http" and port == 443:
            raise SandboxError(f"{text!r:.300} asks for HTTP without TLS at the port of HTTPS")
        return cls(host, port, plain=parts.scheme == "http")

    @classmethod
    def of_agent(cls, text: str, where: str = "llm_hosts") -> Destination:
        """Like ``parse``, for a place in an agent's definition. Also rejects this machine, its cloud, and wildcards."""
        endpoint = cls.parse(text)
        if why := endpoint._too_wide():
            raise SandboxError(f"{where} may not name {text!r:.300}: {why}")
        return endpoint

    def _too_wide(self) -> str:
        name = self.host.removeprefix("*.")
        labels = name.split(".")
        if self.host.startswith("*.") and (
            len(labels) < 2 or (len(labels) == 2 and labels[0] in _SECOND_LEVEL and len(labels[1]) == 2)
        ):
            return "anyone can register names below it"
        if name in _METADATA:
            return "it hands out this machine's credentials"
        address = as_address(name)
        if name in _LOCAL_NAMES or name.endswith(".localhost") or (address is not None and is_here(address)):
            return f"it is this machine or its local network; for a model that runs here, use {HOST_ALIAS}"
        if address is None and labels[-1].isdigit():  # 2130706433, 127.1: resolvers differ in how they read these
            return "it is neither a name nor an address in its usual form"
        return ""

    def admits(self, host: str, port: int) -> bool:
        host = host.lower().rstrip(".")
        if port != self.port:
            return False
        return host.endswith(self.host[1:]) and host != self.host[2:] if self.host[0] == "*" else host == self.host

    def covers(self, other: Destination) -> bool:
        """Whether this destination includes everything that ``other`` stands for."""
        return self == other or (self.plain == other.plain and self.admits(other.host, other.port))

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'http://' if self.plain else ''}{host}:{self.port}"


def as_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


_NAT64 = (ipaddress.IPv6Network("64:ff9b::/96"), ipaddress.IPv6Network("64:ff9b:1::/48"))


def is_here(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Whether an address is this machine, its link, or a cloud's metadata service, also as IPv4 embedded in IPv6.

    Other private addresses are not: a company's own model may have one.
    """
    if isinstance(address, ipaddress.IPv6Address):
        low = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
        if any(address in network for network in _NAT64) or 1 < int(address) < 1 << 32:
            inner = low
        if inner is not None:
            return is_here(inner)
    return (
        address.is_loopback
        or address.is_link_local
        or address.is_unspecified
        or address.is_multicast
        or int(address) >> 24 == 0
        or str(address) in _METADATA
        or _is_local(str(address))
    )


def _is_local(address: str) -> bool:
    """Whether one of this machine's interfaces has the address: a socket that connects to it is bound to it as well."""
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((address, 9))  # sends nothing
            return str(probe.getsockname()[0]) == address
        except OSError:
            return False


def endpoints(
    agent: Agent, launch: Launch, more: Iterable[str] = (), *, without: Container[str] = ()
) -> tuple[Destination, ...]:
    """Return what the policy ``llm`` lets this agent reach. Raises SandboxError for a host that is not permitted.

    The result has the hosts ``more``, which the user permits, and the providers of keys that the agent gets in plain,
    limited to ``llm_hosts`` if that is set. A bundled agent gets all hosts that it lists. Hosts in ``without`` are left
    to the gateway, unless in ``more``. Other hosts in ``llm_hosts`` or ``…_BASE_URL`` need the user's permission.
    """
    permitted = tuple(map(Destination.parse, more))
    key_hosts = {_PROVIDERS[name] for name in agent.secret_names if name in _PROVIDERS}
    hosts = agent.llm_hosts or tuple(sorted(key_hosts))
    urls = _urls(launch.environment)
    listed = [*map(Destination.of_agent, hosts), *(Destination.of_agent(url, name) for name, url in urls.items())]
    direct = []
    for endpoint in listed:
        if endpoint.host in without or any(known.covers(endpoint) for known in permitted):
            continue
        if agent.bundled or (endpoint.host in key_hosts and endpoint == Destination(endpoint.host)):
            direct.append(endpoint)
        elif endpoint.host not in MODEL_HOSTS:  # those are reached through the gateway, or not at all
            raise SandboxError(
                f"agent {agent.id} wants to reach {endpoint}, which you have not permitted: allow it with "
                f"--allow-host={endpoint} (in Python: DockerSandbox(allow_hosts=[{str(endpoint)!r}]))"
            )
    return tuple(dict.fromkeys((*direct, *permitted)))


def check_form(agent: Agent, more: Iterable[str] = ()) -> None:
    """Check that all hosts listed by an agent or the user are valid. Raises SandboxError."""
    for text in agent.llm_hosts:
        Destination.of_agent(text)
    for text in more:
        Destination.parse(text)


def _urls(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the URLs of models by variable, without those at ``localhost``, inside the sandbox: no proxy is used."""
    return {
        name: value
        for name, value in environment.items()
        if _URL_VARIABLE.search(name) and "://" in value and not _URL_INSIDE.match(value)
    }
