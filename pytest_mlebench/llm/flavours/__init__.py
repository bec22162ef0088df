"""The APIs that the gateway speaks: their paths, how their errors look, what must not pass, how to read them."""

from __future__ import annotations

from pytest_mlebench.llm.flavours.anthropic import Anthropic
from pytest_mlebench.llm.flavours.base import Endpoint, Flavour, Refusal
from pytest_mlebench.llm.flavours.gemini import Gemini
from pytest_mlebench.llm.flavours.openai import OpenAI

FLAVOURS: dict[str, Flavour] = {"openai": OpenAI(), "anthropic": Anthropic(), "gemini": Gemini()}

__all__ = ["FLAVOURS", "Endpoint", "Flavour", "Refusal"]
