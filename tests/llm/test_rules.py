"""The rules of the allow-lists: what each one admits, drops, rejects and notes."""

from __future__ import annotations

import math
import time
from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request

from pytest_mlebench.llm.requests import (
    DROPPED,
    INLINE,
    MOST_NOTED,
    Admission,
    CamelFields,
    Fields,
    Refusal,
    Rule,
    Tagged,
    Target,
    Wrong,
    base64,
    by_address,
    check_content_type,
    count,
    data_url,
    either,
    fields,
    flag,
    kept,
    labels,
    many,
    mapping,
    normal,
    number,
    one_of,
    only_with_provider,
    parse_body,
    refused,
    some_of,
    text,
    whole,
    word,
)


def free(value: Any, _: Admission) -> Any:
    """A rule that admits every value."""
    return value


class Text(str):
    """A string subclass, which JSON parsing never returns."""


ADMITTED: list[tuple[Rule, list[Any]]] = [
    (text, ["", "x"]),
    (flag, [True, False]),
    (count, [0, 1, (1 << 31) - 1]),
    (whole, [0, -5, (1 << 63) - 1, 1 - (1 << 63)]),
    (number, [0, -1.5, 1e18, -1e18]),
    (free, [None, "x", 3, [1], {"a": [2]}]),
    (mapping, [{}, {"a": 1}]),
    (labels, [{}, {"a": "x", "b": 1, "c": 0.5, "d": True, "e": None}]),
    (one_of("a", "b"), ["a", "b"]),
    (word, ["high", "gpt-4o", "a.b:c/d@e$f_g", "x" * 64]),
    (many(text), [[], ["a", "b"]]),
    (some_of("a", "b"), [["a"], ["b", "a"]]),
    (either({str: text, list: many(text)}), ["a", ["a"]]),
    (data_url, ["data:image/png;base64,AAAA", "DATA:text/plain,x"]),
    (base64, ["", "AAAA", "AA-_ \n==", "data:image/png;base64,AAAA"]),
]
REFUSED: list[tuple[Rule, list[Any], str]] = [
    (text, [1, None, ["x"], {"x": 1}, True, Text("x")], "must be a string"),
    (flag, [0, 1, "true", None], "must be true or false"),
    (count, [-1, 1 << 31, 1.0, "1", True, None], "must be a whole number of at least 0"),
    (whole, [1 << 63, -(1 << 63), 1.0, "1", False], "must be a whole number"),
    (number, [math.nan, math.inf, -math.inf, 1.1e18, -1.1e18, "1", True], "must be a number"),
    (mapping, [[], "x", None], "must be an object"),
    (labels, [[], {"a": []}, {"a": {}}, {"a": 1, "b": [1]}], "must be an object of strings"),
    (one_of("b", "a"), ["c", 1, ["a"], Text("a")], "must be one of a, b"),
    (word, ["", "x" * 65, "a b", "a\n", 1, "é"], "must be a word"),
    (many(text), ["a", {"a": 1}, ("a",)], "must be a list"),
    (some_of("a"), ["a"], "must be a list"),
    (either({str: text, list: many(text), dict: mapping}), [1, None, True], "must be a string or a list or an object"),
    (either({bool: flag, int: count}), ["1"], "must be true or false or a number"),
    (data_url, [1, ["data:,"]], "must be a string"),
    (data_url, ["https://example.org/x.png", "dat", "file:data:"], INLINE),
    (base64, [1, b"AAAA"], "must be a string"),
    (base64, ["https://example.org/x", "AAAA!", "gs://bucket/x", "data:image/png;base64,AA,AA"], INLINE),
    (by_address, ["https://example.org/x"], INLINE),
    (refused("no such thing"), ["x", 1, 0, [0], {"a": 1}, True], "no such thing"),
    (kept("it is kept"), ["x", True], "it is kept"),
    (Tagged({}), ["x", [], None], "must be an object"),
    (Tagged({}), [{}, {"type": 1}, {"type": None}], "type must be a string"),
    (Tagged({"a": free}, what="a part"), [{"type": "b"}], f"a part of type 'b' is not passed on; {INLINE}"),
    (fields("role"), ["x", [], 1], "must be an object"),
]


@pytest.mark.parametrize(("rule", "value"), [(rule, value) for rule, values in ADMITTED for value in values])
def test_an_admitted_value_is_sent_unchanged(rule: Rule, value: Any) -> None:
    admission = Admission()
    assert rule(value, admission) == value
    assert not admission.dropped and not admission.withheld and not admission.unbounded


@pytest.mark.parametrize(
    ("rule", "value", "said"), [(rule, value, said) for rule, values, said in REFUSED for value in values]
)
def test_other_values_are_rejected_with_the_reason(rule: Rule, value: Any, said: str) -> None:
    admission = Admission()
    with pytest.raises(Wrong) as caught:
        rule(value, admission)
    assert str(caught.value) == said


def test_an_error_shows_the_path_of_the_value() -> None:
    rule = fields(input=many(fields(content=many(fields(size=count)))))
    admission = Admission()
    assert admission.place == "the body"
    with pytest.raises(Wrong, match="must be a whole number of at least 0"):
        rule({"input": [{"type": "a"}, {"content": [{"size": 1}, {"size": -1}]}]}, admission)
    assert admission.place == "input[1].content[1].size"


@pytest.mark.parametrize("value", [False, "", [], {}])
def test_an_empty_value_of_a_forbidden_field_is_dropped(value: Any) -> None:
    admission = Admission()
    assert refused("no")(value, admission) is DROPPED
    assert kept("no")(value, admission) is DROPPED
    assert not admission.stored and not admission.unbounded


def test_a_forbidden_field_passes_if_the_user_listed_it() -> None:
    rule = fields(extra=fields(url=refused("no")))
    given = {"extra": {"url": "https://example.org"}}
    assert rule(given, Admission(fields={"extra.url"})) == given
    for other in ({"url"}, {"extra"}, {"extra.url.x"}):
        with pytest.raises(Wrong, match="no"):
            rule(given, Admission(fields=other))


def test_data_stored_by_a_provider_passes_with_its_tools_and_has_unknown_size() -> None:
    admission = Admission(provider_tools=True)
    assert kept("no")("resp_1", admission) == "resp_1"
    assert admission.stored and admission.unbounded


def test_features_run_by_a_provider_are_withheld_without_its_tools() -> None:
    rule = only_with_provider("web search")
    admission = Admission()
    assert rule({"size": "high"}, admission) is DROPPED and admission.withheld == ["web search"]
    assert rule(False, admission) is DROPPED and admission.withheld == ["web search"]
    admission = Admission(provider_tools=True)
    assert rule({"size": "high"}, admission) == {"size": "high"}
    assert admission.unbounded and not admission.withheld


def test_unlisted_words_are_removed_from_a_list() -> None:
    rule = fields(include=some_of("a", "b"))
    admission = Admission()
    assert rule({"include": ["a", "web.results", "b", "x" * 100]}, admission) == {"include": ["a", "b"]}
    assert admission.dropped == ["include.web.results", f"include.{'x' * 64}"]
    admission = Admission(provider_tools=True)
    assert rule({"include": ["web.results"]}, admission) == {"include": ["web.results"]} and not admission.dropped
    admission = Admission()
    with pytest.raises(Wrong, match="must be a string"):
        rule({"include": [1]}, admission)
    assert admission.place == "include[0]"


def test_dropped_elements_of_a_list_leave_no_gap() -> None:
    rule = many(refused("no"))
    assert rule(["", [], False], Admission()) == []


def test_dropped_fields_are_noted_once_and_at_most_fifty_in_total() -> None:
    admission = Admission()
    for k in range(60):
        admission.drop(f"field{k}")
        admission.drop("field0")
    admission.drop("x" * 500)
    assert len(admission.dropped) == MOST_NOTED == 50 and admission.dropped[:2] == ["field0", "field1"]
    short = Admission()
    short.drop("x" * 500)
    assert short.dropped == ["x" * 128]


@pytest.mark.parametrize(
    ("url", "unbounded"),
    [
        ("data:image/png;base64,AA", False),
        ("DATA:IMAGE/PNG;base64,AA", False),
        ("data:text/plain,AA", False),
        ("data:audio/wav;base64,AA", True),
        ("data:application/pdf;base64,AA", True),
        ("data:;base64,AA", True),
        ("data:imagex/png,AA", True),
    ],
)
def test_media_whose_size_does_not_limit_its_tokens_is_noted(url: str, unbounded: bool) -> None:
    admission = Admission()
    assert data_url(url, admission) == url
    assert (admission.media, admission.unbounded) == (1, unbounded)
    data_url("data:image/png,AA", admission)
    assert (admission.media, admission.unbounded) == (2, unbounded)


@pytest.mark.parametrize("rule", [data_url, by_address])
def test_media_given_by_url_passes_with_the_providers_tools(rule: Rule) -> None:
    admission = Admission(provider_tools=True)
    assert rule("https://example.org/x.png", admission) == "https://example.org/x.png"
    assert admission.unbounded and admission.media == 0


def test_an_object_keeps_known_fields_and_drops_the_rest() -> None:
    rule = fields("role", size=count)
    admission = Admission()
    given = {"type": "a", "role": "user", "size": 3, "color": "red", "nested": {"a": 1}}
    assert rule(given, admission) == {"type": "a", "role": "user", "size": 3}
    assert admission.dropped == ["color", "nested"] and admission.path == []
    assert rule({"color": "red"}, Admission(fields={"color"})) == {"color": "red"}


def test_null_is_sent_as_null() -> None:
    assert fields(size=count)({"size": None}, Admission()) == {"size": None}


def test_an_object_without_a_required_field_is_rejected() -> None:
    rule = Fields(model=text, size=count).requiring("model")
    assert rule({"model": "m"}, Admission()) == {"model": "m"}
    for given in ({}, {"model": None}, {"size": 1}):
        with pytest.raises(Wrong, match="needs 'model'"):
            rule(given, Admission())


@pytest.mark.parametrize("key", ["maxTokens", "MAX_TOKENS", "max-tokens", "max_tokens_", "ｍａｘ_tokens", "max.tokens"])
def test_another_spelling_of_a_known_field_is_rejected(key: str) -> None:
    with pytest.raises(Wrong, match="must be written 'max_tokens'"):
        fields(max_tokens=count)({key: 5}, Admission())


def test_a_field_name_with_unusual_characters_is_rejected() -> None:
    with pytest.raises(Wrong, match="has non-ASCII characters, which no field has"):
        fields(size=count)({"größe": 5}, Admission(fields={"größe"}))


def test_a_field_in_snake_case_is_the_same_field_if_servers_accept_both() -> None:
    rule = CamelFields(maxOutputTokens=count, model=text)
    assert rule({"max_output_tokens": 5}, Admission()) == {"maxOutputTokens": 5}
    with pytest.raises(Wrong, match=r"'max_output_tokens' and 'maxOutputTokens' are two spellings of the same field"):
        rule({"max_output_tokens": 5, "maxOutputTokens": 5}, Admission())
    admission = Admission()
    with pytest.raises(Wrong, match="must be a whole number"):
        rule({"max_output_tokens": "5"}, admission)
    assert admission.place == "maxOutputTokens"
    with pytest.raises(Wrong, match="must be written 'maxOutputTokens'"):
        Fields(maxOutputTokens=count)({"max_output_tokens": 5}, Admission())


def test_the_type_of_an_object_determines_its_fields() -> None:
    rule = Tagged({"a": fields(size=count), "b": fields(url=text)}, default="a", what="a part")
    assert rule({"size": 5}, Admission()) == {"size": 5}
    assert rule({"type": "b", "url": "x"}, Admission()) == {"type": "b", "url": "x"}
    with pytest.raises(Wrong, match=r"of type .c{64}. is not passed on"):
        rule({"type": "c" * 100}, Admission())


@pytest.mark.parametrize("admission", [Admission(types={"new"}), Admission(provider_tools=True)])
def test_an_object_of_another_type_passes_if_the_user_lists_it(admission: Admission) -> None:
    given = {"type": "new", "url": "x"}
    assert Tagged({"a": free})(given, admission) == given and admission.unbounded


def test_names_are_compared_without_case_and_punctuation() -> None:
    assert normal("Max_Output-Tokens") == normal("maxOutputTokens") == "maxoutputtokens"
    assert normal("ﬁle.ID") == "fileid"


def test_a_long_name_is_compared_in_linear_time() -> None:
    """Its combining marks would be sorted, in quadratic time."""
    began = time.process_time()
    with pytest.raises(Wrong, match="non-ASCII"):
        Fields(model=text)({"a" + "\u0300\u0316" * 30_000: 1}, Admission())
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    ("path", "provider", "below"),
    [
        ("/openai/v1", "openai", "/v1"),
        ("/openai/v1/chat/completions", "openai", "/v1/chat/completions"),
        *[
            (path, "", "")
            for path in ("", "/", "/openai", "openai/v1", "x/openai/v1", "//v1", "/openai/", "/openai/v1/")
        ],
        *[(f"/openai/{path}", "", "") for path in ("./v1", "../v1", "v1//x", "v1/..", "%2e/v1", "a\\b", "a;b", "a#b")],
    ],
)
def test_a_path_belongs_to_a_provider_only_if_it_is_plain(path: str, provider: str, below: str) -> None:
    found = Target.of(f"{path}?a=1&b=&a=2")
    assert (found.provider, found.path) == (provider, below or path)
    assert found.query == ({"a": "2", "b": ""} if provider else {"a": "2"})


@pytest.mark.parametrize(
    ("raw", "problem", "said"),
    [
        (b'{"a": 1, "a": 1}', "invalid", "duplicate key"),
        (b'{"a": NaN}', "invalid", "NaN is not valid JSON"),
        (b'{"a": -Infinity}', "invalid", "-Infinity is not valid JSON"),
        (b'{"a": 1e999}', "invalid", "1e999 is too large for a number"),
        (b'{"a": "\xff"}', "invalid", "is not JSON"),
        (b"[]", "invalid", "the body must be a JSON object"),
        (b"[" * 1_000_001, "too_large", "too many elements"),
        (b"[" + b"[]," * 500_000, "too_large", "too many elements"),
    ],
)
def test_a_body_is_read_in_only_one_way(raw: bytes, problem: str, said: str) -> None:
    with pytest.raises(Refusal, match=said) as caught:
        parse_body(raw)
    assert caught.value.problem == problem


def test_a_body_may_have_a_million_elements() -> None:
    assert parse_body(b'{"a": [1.5, {"b": null}]}') == {"a": [1.5, {"b": None}]}
    assert len(parse_body(b'{"a": [' + b"0," * 999_998 + b"0]}")["a"]) == 999_999


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ([], ""),
        ([("Content-Type", "application/json")], ""),
        ([("Content-Type", 'Application/JSON ; charset="UTF-8";'), ("Content-Encoding", "Identity")], ""),
        ([("Content-Type", "application/json")] * 2, "application/json, application/json: bodies must be .* in UTF-8$"),
        ([("Content-Type", "application/json; charset=utf-7")], "bodies must be application/json in UTF-8$"),
        ([("Content-Type", "text/json")], "bodies must be application/json in UTF-8$"),
        ([("Content-Encoding", "gzip")], "Content-Encoding: gzip: bodies must be uncompressed$"),
        ([("Content-Encoding", "identity")] * 2, "bodies must be uncompressed$"),
    ],
)
def test_a_body_is_declared_as_json_at_most_once(headers: list[tuple[str, str]], said: str) -> None:
    request = make_mocked_request("POST", "/", headers=headers)
    if not said:
        check_content_type(request)
        return
    with pytest.raises(Refusal, match=said) as caught:
        check_content_type(request)
    assert caught.value.problem == "unsupported"


def test_admissions_and_targets_take_keyword_arguments_only() -> None:
    with pytest.raises(TypeError, match="positional"):
        Admission("m")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="positional"):
        Target("openai", "/v1", {})  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        Target.of("/openai/v1").provider = "other"  # type: ignore[misc]
