"""What calls use and cost: read and priced by genai-prices' offline snapshot, with a user's own prices before it."""

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
from pytest_mlebench.llm.providers import read_mapping

_FIELDS = {
    "input": "input_mtok",
    "cached": "cache_read_mtok",
    "cache_written": "cache_write_mtok",
    "output": "output_mtok",
}
_LIMITS = ("context_window", "output_limit")
_SEARCHES = ("web_searches", "storage_searches")
_MAX_TOKENS = 10**12
"""Counts beyond are no usage but an error."""

_USUAL = frozenset({"auto", "default", "standard", "standard_only", "flex", "global", "unspecified"})
"""Tiers, speeds and places that cost what is listed, or less."""

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
"""How long answers can get where a request sets no limit, by the providers' documentation."""
_LONG_CONTEXT = 1 << 20
"""Tokens that fit into a model's context where a request asks for more than usual."""
_CONTEXT_WINDOW = 400_000
"""Of a model whose own is not known."""


@dataclass(frozen=True)
class Tokens:
    """What one call used. ``input`` includes what was cached or written to the cache, ``output`` the reasoning."""

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
    """Prices of models: ``own`` by patterns of ``model`` or ``provider/model``, then genai-prices'.

    A price is in US dollars for a million tokens, and has the model's limits, in tokens.
    """

    own: Mapping[str, Mapping[str, Decimal]]

    @classmethod
    def load(cls, *files: Path) -> Prices:
        """From YAML files, ``model: {input: 0.5, output: 1.5}`` a line; raises UsageError."""
        return cls({pattern: price for file in files for pattern, price in _read(file).items()})

    def cost(
        self, provider: Provider, model: str, detail: Any, context: Mapping[str, str] | None = None
    ) -> Decimal | None:
        """US dollars of a call that used ``detail``, as genai-prices has it; None where the price is not known."""
        from genai_prices import calc_price
        from genai_prices.types import ModelPrice

        own = self._own(provider, model)
        with contextlib.suppress(LookupError, ValueError):
            rates = {field: own[name] for name, field in _FIELDS.items() if name in own}
            if rates:
                by_mtok = ModelPrice(**{"input_mtok": Decimal(0), "output_mtok": Decimal(0), **rates})
                return Decimal(by_mtok.calc_price(detail)["total_price"])
            if provider.prices is not None:
                price = calc_price(detail, model, provider_id=provider.prices, price_context=context or None)
                known = price.model_price.input_mtok is not None or price.model_price.output_mtok is not None
                return Decimal(price.total_price) if known else None
        return None

    def most(
        self, provider: Provider, model: str, expected: Expected, context: Mapping[str, str] | None = None
    ) -> Most:
        """The most that a call can use and cost."""
        usual_window, output_limit = self._limits(provider, model)
        window = max(usual_window, _LONG_CONTEXT if expected.long_context else 0)
        input = window if expected.input_tokens is None else min(expected.input_tokens, window)
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
        dearest = of_output = None
        if costs[0] is not None and with_output is not None:
            dearest, of_output = max(cost for cost in costs if cost is not None), with_output - costs[0]
        return Most(input=input, output=output, answers=expected.answers, input_cost=dearest, output_cost=of_output)

    def unknown(
        self, provider: Provider, model: str, expected: Expected, context: Mapping[str, str], most: Most
    ) -> str:
        """What of a call's price is not known; empty where its cost has a bound."""
        if most.cost is None:
            return f"model {model} has no known price"
        if expected.media_output and not self._own(provider, model):
            return f"what {expected.media_output} output of {model} costs is not known"
        return self.unpriced(provider, model, context)

    def unpriced(self, provider: Provider, model: str, context: Mapping[str, str]) -> str:
        """Which tier, speed or place of a call has no known price; empty if none."""
        if self._own(provider, model):
            return ""
        usage = {"input_tokens": 1000, "output_tokens": 1000}
        for name, value in context.items():
            if value not in _USUAL:
                own, usual = (self._bound(provider, model, usage, place) for place in ({name: value}, None))
                if own == usual:
                    return f"what {name} {value!r} of {model} costs is not known"
        return ""

    def _bound(
        self, provider: Provider, model: str, usage: Mapping[str, int], context: Mapping[str, str] | None
    ) -> Decimal | None:
        from genai_prices import Usage as Detail

        return self.cost(provider, model, Detail(**usage), context)

    def _own(self, provider: Provider, model: str) -> Mapping[str, Decimal]:
        return next((price for pattern, price in self.own.items() if matches(pattern, provider, model)), {})

    def _limits(self, provider: Provider, model: str) -> tuple[int, int]:
        """How many tokens fit into a model's context, and into its answer."""
        own = self._own(provider, model)
        window = int(own["context_window"]) if "context_window" in own else _context_window(provider, model)
        if "output_limit" in own:
            return window, int(own["output_limit"])
        name = model.rpartition("/")[2].lower()
        known = (limit for pattern, limit in _OUTPUT_LIMITS.items() if fnmatch.fnmatchcase(name, pattern))
        return window, min(next(known, window), window)


@dataclass(frozen=True, kw_only=True)
class Most:
    """The most that a call can use, in tokens and US dollars; costs are None where the price is not known."""

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
        """How long one answer may be at most, so that the call uses no more than this; less than 1: not at all."""
        lengths = [self.output]
        if tokens is not None:
            lengths.append(tokens - self.input)
        if dollars is not None and self.input_cost is not None and self.output_cost:
            lengths.append(math.floor((dollars - self.input_cost) / (self.output_cost / self.output)))
        return min(lengths) // self.answers


def read_usage(flavour: str, api: str, answer: Mapping[str, Any]) -> tuple[Tokens, Any] | None:
    """What an answer says that it used, and genai-prices' own finer account of that; None where it says nothing, or
    nothing that can be true.

    ``flavour`` is a provider of genai-prices, ``api`` what that calls the API.
    """
    from genai_prices.data_snapshot import get_snapshot

    try:
        _, usage = get_snapshot().find_provider(None, flavour, None).extract_usage(answer, api_flavor=api)
    except (LookupError, ValueError, TypeError):
        return None
    for name in _SEARCHES:  # of what is not there genai-prices would have to find out that there is none
        vars(usage).setdefault(name, 0)
    values = {name: value for name, value in vars(usage).items() if isinstance(value, int)}
    tokens = Tokens(
        input=values.get("input_tokens", 0),
        output=values.get("output_tokens", 0),
        cached=values.get("cache_read_tokens", 0),
        cache_written=values.get("cache_write_tokens", 0),
        reasoning=values.get("output_reasoning_tokens", 0),
    )
    if any(not 0 <= value < _MAX_TOKENS for value in vars(tokens).values()):
        return None
    return tokens, usage


def _context_window(provider: Provider, model: str) -> int:
    from genai_prices.data_snapshot import get_snapshot

    with contextlib.suppress(LookupError):
        if provider.prices is not None:
            known = get_snapshot().find_provider_model(model, None, provider.prices, None)[1].context_window
            return known or _CONTEXT_WINDOW
    return _CONTEXT_WINDOW


def matches(pattern: str, provider: Provider, model: str) -> bool:
    """Whether ``model`` or ``provider/model`` matches this glob; capitals do not matter."""
    return any(fnmatch.fnmatchcase(name.lower(), pattern.lower()) for name in (f"{provider.name}/{model}", model))


def _read(file: Path) -> dict[str, dict[str, Decimal]]:
    values = read_mapping(file, "prices", "models to prices, such as `my-model: {input: 0.5, output: 2}`")
    return {str(name): _price(value, f"{file}: {name}") for name, value in values.items()}


def _price(values: Any, where: str) -> dict[str, Decimal]:
    known = (*_FIELDS, *_LIMITS)
    if not isinstance(values, dict) or not values:
        raise UsageError(f"{where}: must be a mapping with some of {', '.join(known)}")
    if extra := sorted(map(str, values.keys() - set(known))):
        raise UsageError(f"{where} has unknown keys {', '.join(extra)}; known are {', '.join(known)}")
    price = {}
    for name, value in values.items():
        try:
            number = Decimal(str(value))
            right = number.is_finite() and number >= 0 and not isinstance(value, bool)
        except InvalidOperation:
            right = False
        if not right:
            raise UsageError(f"{where}: {name} is {value!r}, must be a number of at least 0")
        price[name] = number
    return price
