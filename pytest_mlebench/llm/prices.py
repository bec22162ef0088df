"""Usage and cost of calls, from genai-prices' offline snapshot. A user's own prices override its prices."""

from __future__ import annotations

import contextlib
import fnmatch
import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from pytest_mlebench.errors import UsageError
from pytest_mlebench.llm.api import Expected, Provider
from pytest_mlebench.llm.providers import read_entries

Context = Mapping[str, str]
"""What the price of a call depends on besides its model: service tier, speed, region."""
_FIELDS = {
    "input": "input_mtok",
    "cached": "cache_read_mtok",
    "cache_written": "cache_write_mtok",
    "output": "output_mtok",
}
_LIMITS = ("context_window", "output_limit")
_SEARCHES = ("web_searches", "storage_searches")
MAX_AMOUNT = 10**12
"""Larger counts of tokens are treated as invalid."""

_USUAL = frozenset({"auto", "default", "standard", "standard_only", "flex", "global", "unspecified"})
"""Tiers, speeds and regions that cost the list price or less."""

_OUTPUT_LIMITS = {
    "gpt-3.5*": 4_096,
    "gpt-4": 8_192,
    "gpt-4-0*": 8_192,
    "gpt-4-turbo*": 4_096,
    "gpt-4o*": 16_384,
    "chatgpt-4o*": 16_384,
    "gpt-4.1*": 32_768,
    "o1*": 100_000,
    "o3*": 100_000,
    "o4*": 100_000,
    "gpt-5*": 128_000,
    "gemini-1.5*": 8_192,
    "gemini-2.0*": 8_192,
    "gemini-2.5*": 65_536,
    "gemini-3*": 65_536,
}
"""Maximum length of an answer, in tokens, if the request sets no limit. From the providers' documentation."""
_LONG_CONTEXT = 1 << 20
"""Context window, in tokens, if a request asks for a longer one than usual."""
_ASSUMED_WINDOW, _ASSUMED_OUTPUT = 2 << 20, 400_000
"""Context window and longest answer, in tokens, that are assumed for a model if its own are unknown."""


@dataclass(frozen=True)
class Tokens:
    """Tokens that one call used. ``input`` includes cache reads and writes, and ``output`` includes reasoning."""

    input: int = 0
    output: int = 0
    cached: int = 0
    cache_written: int = 0
    reasoning: int = 0

    @property
    def total(self) -> int:
        return self.input + self.output


@dataclass(frozen=True)
class Prices:
    """Prices of models: first ``own``, by patterns of ``model`` or ``provider/model``, then those of genai-prices.

    Prices are in US dollars per million tokens. An entry can also have the model's limits, in tokens.
    """

    own: Mapping[str, Mapping[str, Decimal]]

    @classmethod
    def load(cls, *files: Path) -> Prices:
        """Load YAML files with lines such as ``model: {input: 0.5, output: 1.5}``. Raises UsageError."""
        entries = (entry for file in files for entry in read_entries(file, "model", (*_FIELDS, *_LIMITS)))
        return cls({pattern: _price(values, where) for pattern, values, where in entries})

    def cost(self, provider: Provider, model: str, detail: Any, context: Context | None = None) -> Decimal | None:
        """Return the cost in US dollars of a call with genai-prices' usage ``detail``; None if the price is unknown."""
        from genai_prices import calc_price
        from genai_prices.types import ModelPrice

        with contextlib.suppress(LookupError, ValueError):
            if rates := self._own_rates(provider, model):
                return Decimal(ModelPrice(**rates).calc_price(detail)["total_price"])
            if provider.prices is not None:
                price = calc_price(detail, model, provider_id=provider.prices, price_context=context or None)
                known = price.model_price.input_mtok is not None or price.model_price.output_mtok is not None
                return Decimal(price.total_price) if known else None
        return None

    def most(self, provider: Provider, model: str, expected: Expected, context: Context | None = None) -> MaxUsage:
        """Return the most that a call can use and cost."""
        usual_window, output_limit = self._limits(provider, model)
        window = max(usual_window or _ASSUMED_WINDOW, _LONG_CONTEXT if expected.long_context else 0)
        given = window if expected.input_tokens is None else expected.input_tokens
        input = min(given, window) if usual_window else given
        output = output_limit if expected.output_tokens is None else expected.output_tokens
        output *= expected.answers
        usage = {"input_tokens": input, "output_tokens": 0}
        variants = [
            usage,
            {**usage, "cache_write_tokens": input},
            {**usage, "cache_write_tokens": input, "cache_write_1h_tokens": input},
            *([{**usage, "input_audio_tokens": input}] if expected.audio else []),
        ]
        costs = [self._bound(provider, model, variant, context) for variant in variants]
        with_output = self._bound(provider, model, {**usage, "output_tokens": output}, context)
        most = of_output = None
        if costs[0] is not None and with_output is not None:
            most, of_output = max(cost for cost in costs if cost is not None), with_output - costs[0]
        return MaxUsage(input=input, output=output, answers=expected.answers, input_cost=most, output_cost=of_output)

    def unknown(self, provider: Provider, model: str, expected: Expected, context: Context, most: MaxUsage) -> str:
        """Return which price of a call is unknown; empty if its cost has an upper bound."""
        if most.cost is None:
            return f"model {model} has no known price"
        if expected.media_output and not self._own_rates(provider, model):
            return f"the price of {expected.media_output} output of {model} is unknown"
        return self.unpriced(provider, model, context)

    def unpriced(self, provider: Provider, model: str, context: Context) -> str:
        """Return which tier, speed or region of a call has no known price; empty if none."""
        if self._own_rates(provider, model):
            return ""
        usage = {"input_tokens": 1000, "output_tokens": 1000}
        for name, value in context.items():
            if value not in _USUAL:
                special, usual = (self._bound(provider, model, usage, context) for context in ({name: value}, None))
                if special == usual:
                    return f"the price of {name} {value!r} of {model} is unknown"
        return ""

    def _bound(self, provider: Provider, model: str, usage: dict[str, int], context: Context | None) -> Decimal | None:
        from genai_prices import Usage as Detail

        return self.cost(provider, model, Detail(**usage), context)

    def _own(self, provider: Provider, model: str) -> Mapping[str, Decimal]:
        return next((price for pattern, price in self.own.items() if matches(pattern, provider, model)), {})

    def _own_rates(self, provider: Provider, model: str) -> dict[str, Decimal]:
        """Return the user's own prices of a model, as genai-prices names them; empty if there are none."""
        own = self._own(provider, model)
        return {field: own[name] for name, field in _FIELDS.items() if name in own}

    def _limits(self, provider: Provider, model: str) -> tuple[int, int]:
        """Return the sizes of a model's context window (0 if unknown) and of its longest answer, in tokens."""
        own = self._own(provider, model)
        window = int(own["context_window"]) if "context_window" in own else _context_window(provider, model)
        if "output_limit" in own:
            return window, int(own["output_limit"])
        name = model.rpartition("/")[2].lower()
        known = (limit for pattern, limit in _OUTPUT_LIMITS.items() if fnmatch.fnmatchcase(name, pattern))
        longest = window or _ASSUMED_OUTPUT
        return window, min(next(known, longest), longest)


@dataclass(frozen=True, kw_only=True)
class MaxUsage:
    """The most that a call can use, in tokens and US dollars. Costs are None if the price is unknown."""

    input: int
    output: int
    answers: int
    input_cost: Decimal | None
    output_cost: Decimal | None

    @property
    def tokens(self) -> int:
        return self.input + self.output

    @property
    def cost(self) -> Decimal | None:
        return None if self.input_cost is None or self.output_cost is None else self.input_cost + self.output_cost

    def affordable(self, tokens: int | None, dollars: Decimal | None) -> int:
        """Return the maximum tokens of one answer if the call may use this much; less than 1 if it does not fit."""
        lengths = [self.output]
        if tokens is not None:
            lengths.append(tokens - self.input)
        if dollars is not None and self.input_cost is not None and self.output_cost:
            lengths.append(math.floor((dollars - self.input_cost) / (self.output_cost / self.output)))
        return min(lengths) // self.answers


def read_usage(flavour: str, api: str, answer: Mapping[str, Any]) -> tuple[Tokens, Any] | None:
    """Return the usage that an answer reports, and the same in genai-prices' form, which is more detailed.

    Returns None if it reports no usage or an invalid one. ``flavour`` is a provider in genai-prices, and ``api`` is the
    name of the API there.
    """
    from genai_prices.data_snapshot import get_snapshot

    try:
        _, usage = get_snapshot().find_provider(None, flavour, None).extract_usage(answer, api_flavor=api)
    except (LookupError, ValueError, TypeError):
        return None
    for name in _SEARCHES:  # genai-prices would spend time to infer missing counts
        vars(usage).setdefault(name, 0)
    values = {name: value for name, value in vars(usage).items() if isinstance(value, int)}
    tokens = Tokens(
        input=values.get("input_tokens", 0),
        output=values.get("output_tokens", 0),
        cached=values.get("cache_read_tokens", 0),
        cache_written=values.get("cache_write_tokens", 0),
        reasoning=values.get("output_reasoning_tokens", 0),
    )
    if any(not 0 <= value < MAX_AMOUNT for value in vars(tokens).values()):
        return None
    return tokens, usage


def _context_window(provider: Provider, model: str) -> int:
    """Return the size of a model's context window; 0 if unknown. Large ones may be rounded: 1,000,000 for 1,048,576."""
    from genai_prices.data_snapshot import get_snapshot

    with contextlib.suppress(LookupError):
        if provider.prices is not None:
            known = get_snapshot().find_provider_model(model, None, provider.prices, None)[1].context_window or 0
            return known if known < 10**6 else math.ceil(known * 1.048576)
    return 0


def matches(pattern: str, provider: Provider, model: str) -> bool:
    """Return whether ``model`` or ``provider/model`` matches this glob pattern, ignoring case."""
    return any(fnmatch.fnmatchcase(name.lower(), pattern.lower()) for name in (f"{provider.name}/{model}", model))


def _price(values: Mapping[str, Any], where: str) -> dict[str, Decimal]:
    price = {}
    for name, value in values.items():
        try:
            number = Decimal(str(value))
            valid = number.is_finite() and number >= 0 and not isinstance(value, bool)
        except InvalidOperation:
            valid = False
        if not valid:
            raise UsageError(f"{where}: {name} must be a number of at least 0, not {value!r}")
        price[name] = number
    if any(name in price for name in _FIELDS) and not {"input", "output"} <= price.keys():
        raise UsageError(f"{where}: needs both input and output; use 0 for one that is free")
    return price
