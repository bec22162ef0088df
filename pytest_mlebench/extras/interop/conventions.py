"""The names of OpenTelemetry's semantic conventions for generative AI, which are still in development."""

from __future__ import annotations

from enum import StrEnum

VERSION = "1.41.0"
"""Of the semantic conventions: the last one with generative AI among the others. It is in the scope of all spans."""
SCHEMA = f"https://opentelemetry.io/schemas/{VERSION}"
EVALUATION = "gen_ai.evaluation.result"


class Name(StrEnum):
    """Every attribute of the conventions that is used; all others begin with ``mlebench.``."""

    OPERATION = "gen_ai.operation.name"
    PROVIDER = "gen_ai.provider.name"
    AGENT = "gen_ai.agent.name"
    CONVERSATION = "gen_ai.conversation.id"
    MODEL = "gen_ai.request.model"
    ANSWERED_MODEL = "gen_ai.response.model"
    FINISH = "gen_ai.response.finish_reasons"
    FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
    STREAM = "gen_ai.request.stream"
    INPUT = "gen_ai.usage.input_tokens"
    OUTPUT = "gen_ai.usage.output_tokens"
    CACHED = "gen_ai.usage.cache_read.input_tokens"
    CACHE_WRITTEN = "gen_ai.usage.cache_creation.input_tokens"
    REASONING = "gen_ai.usage.reasoning.output_tokens"
    TOOL = "gen_ai.tool.name"
    TOOL_TYPE = "gen_ai.tool.type"
    TOOL_CALL = "gen_ai.tool.call.id"
    ARGUMENTS = "gen_ai.tool.call.arguments"
    RESULT = "gen_ai.tool.call.result"
    INPUT_MESSAGES = "gen_ai.input.messages"
    OUTPUT_MESSAGES = "gen_ai.output.messages"
    EVALUATION_NAME = "gen_ai.evaluation.name"
    SCORE = "gen_ai.evaluation.score.value"
    LABEL = "gen_ai.evaluation.score.label"
    EXPLANATION = "gen_ai.evaluation.explanation"
    ERROR = "error.type"


OPERATIONS = {"generate": "chat", "embed": "embeddings"}
"""By the ledger's kind of call; other calls, which cost nothing, have no spans."""
PROVIDERS = {"gemini": "gcp.gemini", "gemini-openai": "gcp.gemini", "azure": "azure.ai.openai", "mistral": "mistral_ai",
              "xai": "x_ai", "bedrock": "aws.bedrock"}  # fmt: skip
"""Providers that the conventions call otherwise than we do."""
TOKENS = {"input": Name.INPUT, "output": Name.OUTPUT, "cached": Name.CACHED, "cache_written": Name.CACHE_WRITTEN,
           "reasoning": Name.REASONING}  # fmt: skip
