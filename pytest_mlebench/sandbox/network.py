"""What an agent may reach: ``none``, ``llm`` (the endpoints of its model's provider), or ``full``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from pytest_mlebench.agents.definition import Agent, Launch
from pytest_mlebench.errors import SandboxError

Network = Literal["llm", "none", "full"]
NETWORKS: tuple[Network, ...] = ("llm", "none", "full")

HOST_ALIAS = "host.docker.internal"
"""How an agent names this machine, where its model runs here; it has to be listed as any other host."""

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
_URL_VARIABLE = re.compile(r"_(BASE_URL|API_BASE|API_URL|ENDPOINT)$")
_NAME = re.compile(r"(\*\.)?[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*\.?")


@dataclass(frozen=True)
class Endpoint:
    """A host and a port that may be reached. ``*.example.com`` stands for every name below it, not for itself."""

    host: str
    port: int = 443

    @classmethod
    def parse(cls, text: str) -> Endpoint:
        """From ``host``, ``host:port`` or a URL; raises SandboxError."""
        url = text if "://" in text else f"https://{text}"
        try:
            parts = urlsplit(url)
            port = parts.port or (80 if parts.scheme == "http" else 443)
        except ValueError as error:
            raise SandboxError(f"{text!r} is not a host that an agent could be let through to: {error}") from error
        host = (parts.hostname or "").rstrip(".")
        if ":" not in host and not _NAME.fullmatch(host):
            raise SandboxError(f"{text!r} is not a host that an agent could be let through to")
        return cls(host, port)

    def admits(self, host: str, port: int) -> bool:
        host = host.lower().rstrip(".")
        if port != self.port:
            return False
        return host.endswith(self.host[1:]) and host != self.host[2:] if self.host[0] == "*" else host == self.host

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def endpoints(agent: Agent, launch: Launch, more: Iterable[str] = ()) -> tuple[Endpoint, ...]:
    """What the policy ``llm`` lets this agent reach.

    Its ``llm_hosts``; where it lists none (agents made for MLE-bench know no such list), the providers of those keys
    that it is given. Also the hosts of its variables ``…_BASE_URL``, and ``more``.
    """
    hosts = agent.llm_hosts or tuple(_PROVIDERS[name] for name in agent.secret_names if name in _PROVIDERS)
    return tuple(dict.fromkeys(map(Endpoint.parse, (*hosts, *_urls(launch.environment), *more))))


def _urls(environment: Mapping[str, str]) -> list[str]:
    return [value for name, value in environment.items() if _URL_VARIABLE.search(name) and "://" in value]
