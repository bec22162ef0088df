"""What a session sets for its gateways."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_mlebench.llm.budget import Limits
from pytest_mlebench.llm.ledger import Recording
from pytest_mlebench.llm.prices import Prices
from pytest_mlebench.llm.providers import Provider, load_providers

BACKLOG = 512
"""Connections that wait to be accepted: agents open hundreds at once."""


@dataclass(frozen=True, kw_only=True)
class GatewaySettings:
    """Options of the gateway; ``models`` are globs, none of which allows all."""

    providers: Mapping[str, Provider] = field(default_factory=load_providers)
    record: Recording = "bodies"
    limits: Limits = field(default_factory=Limits)
    models: tuple[str, ...] = ()
    prices: Prices = field(default_factory=lambda: Prices({}))
    retries: int = 0
    rpm: float | None = None
    allow_provider_tools: bool = False
