"""Gemini's API: generateContent, streamGenerateContent in both formats, countTokens, embeddings, models."""

from __future__ import annotations

import itertools
import re
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from pytest_mlebench.io.values import as_object, as_objects
from pytest_mlebench.llm import api
from pytest_mlebench.llm.api import Body, Endpoint, Message
from pytest_mlebench.llm.requests import (
    DROPPED,
    Admission,
    CamelFields,
    Problem,
    Rule,
    Wrong,
    base64,
    by_address,
    count,
    either,
    flag,
    kept,
    labels,
    many,
    mapping,
    media,
    normal,
    number,
    text,
    whole,
    word,
)

_CALL = re.compile(r"/v1(?:beta|alpha)?/models/([A-Za-z0-9][A-Za-z0-9._-]*):([A-Za-z]+)")
_CLIENT_TOOLS = {"functiondeclarations", "computeruse"}
"""Tools that the client runs itself; the provider runs those in any other field of a tool."""


_blob = media(CamelFields(mimeType=text, data=base64, displayName=text), "mimeType")
_part = CamelFields(
    text=text,
    thought=flag,
    thoughtSignature=text,
    inlineData=_blob,
    fileData=by_address,
    functionCall=CamelFields(id=text, name=text, args=mapping),
    functionResponse=CamelFields(
        id=text,
        name=text,
        response=mapping,
        parts=many(CamelFields(inlineData=_blob, fileData=by_address)),
        willContinue=flag,
        scheduling=word,
    ),
    videoMetadata=CamelFields(startOffset=text, endOffset=text, fps=number),
    mediaResolution=either({str: word, dict: CamelFields(level=word, numTokens=count)}),
    executableCode=CamelFields(id=text, language=word, code=text),
    codeExecutionResult=CamelFields(id=text, outcome=word, output=text),
    partMetadata=mapping,
)


def _one_part(value: Any, admission: Admission) -> Any:
    part = _part(value, admission)
    if value and not part:
        raise Wrong(f"has none of the allowed fields, only {', '.join(map(repr, value))[:100]}")
    return part


_parts = either({dict: _one_part, list: many(_one_part)})
_content = CamelFields(role=text, parts=_parts)
_contents = either({dict: _content, list: many(_content)})


def _tool(value: Any, admission: Admission) -> Any:
    """Pass on the fields of a tool that the client runs; withhold the others, which the provider runs."""
    mapping(value, admission)
    of_client = {key: item for key, item in value.items() if normal(key) in _CLIENT_TOOLS or key in admission.types}
    if admission.provider_tools:
        admission.unbounded |= of_client.keys() != value.keys()
        return value
    for key in value:
        if key not in of_client:
            admission.withhold(key)
    return _client_tool(of_client, admission) if of_client else DROPPED


_declaration = CamelFields(
    name=text,
    description=text,
    behavior=word,
    **dict.fromkeys(("parameters", "response", "parametersJsonSchema", "responseJsonSchema"), mapping),
)
_client_tool = CamelFields(
    functionDeclarations=either({dict: _declaration, list: many(_declaration)}),
    computerUse=CamelFields(environment=word, excludedPredefinedFunctions=many(text)),
)


def _modality(value: Any, admission: Admission) -> Any:
    if type(value) is not str or value.upper() not in ("TEXT", "IMAGE", "AUDIO"):
        raise Wrong("must be one of TEXT, IMAGE, AUDIO")
    return value.upper()


_voice = CamelFields(prebuiltVoiceConfig=CamelFields(voiceName=text))
_speaker = CamelFields(speaker=text, voiceConfig=_voice)
_config = CamelFields(
    **dict.fromkeys(("temperature", "topP", "topK", "presencePenalty", "frequencyPenalty"), number),
    **dict.fromkeys(("candidateCount", "maxOutputTokens", "logprobs"), count),
    seed=whole,
    stopSequences=many(text),
    responseMimeType=text,
    **dict.fromkeys(("responseSchema", "responseJsonSchema"), mapping),
    responseLogprobs=flag,
    responseModalities=many(_modality),
    thinkingConfig=CamelFields(includeThoughts=flag, thinkingBudget=whole, thinkingLevel=word),
    mediaResolution=word,
    **dict.fromkeys(("enableAffectiveDialog", "enableEnhancedCivicAnswers", "audioTimestamp"), flag),
    imageConfig=CamelFields(aspectRatio=text, imageSize=word),
    speechConfig=CamelFields(
        languageCode=word,
        voiceConfig=_voice,
        multiSpeakerVoiceConfig=CamelFields(speakerVoiceConfigs=many(_speaker)),
    ),
)


def _model(value: Any, admission: Admission) -> Any:
    """The name of the model, which must match the path."""
    if type(value) is not str or value.removeprefix("models/") != admission.model:
        raise Wrong(f"must be the model in the path, {admission.model!r}")
    return value


_GENERATE: dict[str, Rule] = {
    "model": _model,
    "contents": _contents,
    "systemInstruction": either({str: text, dict: _content}),
    "tools": either({dict: lambda value, admission: many(_tool)([value], admission), list: many(_tool)}),
    "toolConfig": CamelFields(
        functionCallingConfig=CamelFields(mode=word, allowedFunctionNames=many(text), streamFunctionCallArguments=flag)
    ),
    "generationConfig": _config,
    "safetySettings": many(CamelFields(category=word, threshold=word, method=word)),
    "labels": labels,
    "cachedContent": kept("content stored by the provider is not supported here"),
    "serviceTier": word,
    "store": flag,
}
_generate = CamelFields(**_GENERATE).requiring("contents")
_count = CamelFields(**_GENERATE, generateContentRequest=_generate)
_EMBED: dict[str, Rule] = {
    "model": _model,
    "content": _content,
    "taskType": word,
    "title": text,
    "outputDimensionality": count,
}
_embeddings = CamelFields(**_EMBED, requests=many(CamelFields(**_EMBED).requiring("content")))
_METHODS = {
    "generateContent": Endpoint(kind="generate", stream=False, rule=_generate),
    "streamGenerateContent": Endpoint(kind="generate", stream=True, rule=_generate),
    "countTokens": Endpoint(kind="count", stream=False, rule=_count),
    "embedContent": Endpoint(kind="embed", stream=False, rule=_embeddings),
    "batchEmbedContents": Endpoint(kind="embed", stream=False, rule=_embeddings),
}
_WITH_MEDIA = re.compile("image|tts|audio|live|veo|imagen", re.IGNORECASE)


class Gemini(api.API):
    name = "gemini"
    key_header = "x-goog-api-key"
    usage_of = "google"
    models = re.compile(r"/v1(?:beta|alpha)?/models(/[A-Za-z0-9][A-Za-z0-9._-]*)?")
    # Others (`fields`, `$httpMethod`, `access_token`, …) change the request, or hide parts of the answer.
    query = frozenset({"alt", "pageSize", "pageToken"})

    def endpoint(self, method: str, path: str) -> Endpoint | None:
        match = _CALL.fullmatch(path) if method == "POST" else None
        if match is None:
            return super().endpoint(method, path)
        called = _METHODS.get(match[2])
        return replace(called, model=match[1]) if called else None

    def error(self, problem: Problem, message: str) -> Body:
        error: Body = {"code": self.status(problem), "message": message, "status": api.ERRORS[problem].gemini}
        if problem == "budget":
            reason = {"reason": "BILLING_DISABLED", "domain": "googleapis.com"}
            error["details"] = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", **reason}]
        return {"error": error}

    def status(self, problem: Problem) -> int:
        return 403 if problem == "budget" else super().status(problem)  # Google's status for a missing billing account

    def drop_withheld_tools(self, body: Body, admission: Admission) -> None:
        for request in (body, body.get("generateContentRequest") or {}):
            if not admission.withheld or request.get("tools") != []:
                continue
            calling = (request.get("toolConfig") or {}).get("functionCallingConfig") or {}
            if str(calling.get("mode", "")).upper() == "ANY":
                raise api.withheld_tool(admission.withheld[0])
            for key in ("tools", "toolConfig"):
                request.pop(key, None)

    def expected(self, endpoint: Endpoint, body: Body, size: int, admission: Admission) -> api.Expected:
        config = body.get("generationConfig") or {}
        modalities = [one.lower() for one in config.get("responseModalities") or () if one != "TEXT"]
        by_name = _WITH_MEDIA.search(endpoint.model or "") if endpoint.kind == "generate" else None
        return api.Expected(
            input_tokens=None if admission.unbounded else size + admission.media * api.MEDIA_TOKENS,
            output_tokens=(config.get("maxOutputTokens") or None) if endpoint.kind == "generate" else 0,
            answers=max(1, config.get("candidateCount") or 1),
            audio=admission.unbounded,
            media_output=next(iter(modalities), by_name[0] if by_name else ""),
        )

    def limit_output(self, endpoint: Endpoint, body: Body, tokens: int, admission: Admission) -> bool:
        body["generationConfig"] = {**(body.get("generationConfig") or {}), "maxOutputTokens": tokens}
        return True

    def stream(self, endpoint: Endpoint) -> api.StreamReader:
        return _Contents()

    def as_stream(self, endpoint: Endpoint, answer: Body) -> Iterator[tuple[str | None, Body | str]]:
        yield None, answer

    def said(self, path: str, request: Body, answer: Body) -> api.CallContent:
        system = as_object(request.get("systemInstruction") or request.get("system_instruction"))
        messages = [Message(role="system", text=prompt)] if (prompt := api.content_text(system.get("parts"))) else []
        numbers, open_calls = itertools.count(1), defaultdict[str, deque[str]](deque)
        for content in as_objects(request.get("contents")):
            messages += _content_messages(content, numbers, open_calls)
        reply = None
        if candidates := as_objects(answer.get("candidates")):
            content = {**as_object(candidates[0].get("content")), "role": "model"}
            (reply,) = _content_messages(content, numbers, open_calls)
        tools = [
            declaration
            for tool in as_objects(request.get("tools"))
            for declaration in as_objects(tool.get("functionDeclarations") or tool.get("function_declarations"))
        ]
        return api.CallContent(messages=api.merge_messages(messages), answer=reply, tools=tools)

    def question(self, question: api.Question) -> tuple[str, Body]:
        return f"/v1beta/models/{question.model}:generateContent", {
            "systemInstruction": {"parts": [{"text": question.system}]},
            "contents": [{"role": "user", "parts": [{"text": question.user}]}],
            "generationConfig": {"responseMimeType": "application/json", "maxOutputTokens": question.max_tokens},
        }


class _Contents(api.StreamReader):
    """Merges the parts of a streamed ``GenerateContentResponse``."""

    def __init__(self) -> None:
        self._answer: Body = {}
        self._candidates: dict[int, Body] = {}

    def feed(self, event: Body) -> None:
        for key, value in event.items():
            if key == "candidates" and isinstance(value, list):
                for candidate in as_objects(value):
                    self._candidate(candidate)
            elif key == "usageMetadata" and isinstance(value, dict):
                self._answer[key] = {**as_object(self._answer.get(key)), **value}
            else:
                self._answer[key] = value

    def _candidate(self, candidate: Body) -> None:
        index = api.as_index(candidate.get("index"))
        whole = self._candidates.setdefault(index, {})
        for key, value in candidate.items():
            if key == "content" and isinstance(value, dict):
                content = whole["content"] = as_object(whole.get("content"))
                parts = content.setdefault("parts", [])
                content |= {name: item for name, item in value.items() if name != "parts"}
                for part in as_objects(value.get("parts")):
                    if parts and _continues(part, parts[-1]):
                        parts[-1] = {**parts[-1], **part, "text": parts[-1]["text"] + part["text"]}
                    else:
                        parts.append(part)
            else:
                whole[key] = value

    def answer(self) -> Body:
        return {**self._answer, "candidates": [self._candidates[index] for index in sorted(self._candidates)]}


def _continues(part: Any, last: Any) -> bool:
    """Return whether both parts are text, and both are thoughts or neither is."""
    are_texts = all(isinstance(one, dict) and isinstance(one.get("text"), str) for one in (part, last))
    return are_texts and bool(part.get("thought")) == bool(last.get("thought"))


def _content_messages(
    content: Mapping[str, Any], numbers: Iterator[int], open_calls: defaultdict[str, deque[str]]
) -> list[Message]:
    """Convert a content to messages. Without ids, calls are numbered, and results match the oldest call of the name."""
    parts = as_objects(content.get("parts"))
    calls, results = [], []
    for part in parts:
        if call := as_object(part.get("functionCall") or part.get("function_call")):
            number, name = next(numbers), api.as_string(call.get("name"))
            id = api.as_string(call.get("id")) or f"call-{number}"
            open_calls[name].append(id)
            calls.append(api.called(id, name, call.get("args")))
        if result := as_object(part.get("functionResponse") or part.get("function_response")):
            waiting = open_calls[api.as_string(result.get("name"))] or deque([""])
            id = api.as_string(result.get("id")) or waiting.popleft()
            results.append(api.ToolResult(id=id, content=api.content_text(result.get("response"))))
    text = api.content_text([part for part in parts if not part.get("thought") and not part.keys() & _FUNCTIONS])
    if content.get("role") == "model":
        reasoning = api.joined(part.get("text") for part in parts if part.get("thought"))
        return [Message(role="agent", text=text, reasoning=reasoning, calls=tuple(calls))]
    messages = [Message(role="results", results=tuple(results))] if results else []
    return [*messages, *([Message(role="user", text=text)] if text or not results else [])]


_FUNCTIONS = {"functionCall", "function_call", "functionResponse", "function_response"}
