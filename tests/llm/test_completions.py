"""Token probabilities from servers that return them in different formats, or not at all."""

from __future__ import annotations

from urllib.error import HTTPError

import pytest

from pytest_mlebench.extras.audit.completions import CHARACTERS, CompletionsError, CompletionsServer
from tests.llm.completions_server import Scripted, serving

TEXT = "known words and zzrare ones"


def ask(scripted: Scripted, text: str = TEXT, key: str = "") -> list[float]:
    return CompletionsServer(scripted.url, "base", key, pause=lambda _: None).probabilities(text)


@pytest.mark.parametrize("way", ["echo", "prompt_logprobs"])
def test_each_token_after_the_first_has_a_probability_or_0_outside_the_top(way: str) -> None:
    with serving(Scripted(knows={"known": 0.25}, way=way)) as scripted:
        assert ask(scripted) == pytest.approx([0.25, 0.25, 0, 0.25])


def test_the_request_format_that_worked_is_tried_first_afterwards() -> None:
    with serving(Scripted(way="prompt_logprobs")) as scripted:
        server = CompletionsServer(scripted.url, "base")
        server.probabilities(TEXT)
        assert len(scripted.requests) == 2
        server.probabilities(TEXT)
        assert len(scripted.requests) == 3 and "prompt_logprobs" in scripted.requests[-1]


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_server_is_retried(status: int) -> None:
    with serving(Scripted(statuses=[status, status])) as scripted:
        assert len(ask(scripted)) == 4 and len(scripted.requests) == 3


def test_a_connection_that_breaks_during_an_error_message_is_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    def reset(*_: object) -> bytes:
        raise ConnectionResetError

    monkeypatch.setattr(HTTPError, "read", reset, raising=False)
    with serving(Scripted(statuses=[503])) as scripted:
        assert len(ask(scripted)) == 4 and len(scripted.requests) == 2
    with serving(Scripted(statuses=[401])) as scripted, pytest.raises(CompletionsError, match=r"returned status 401$"):
        ask(scripted)


@pytest.mark.parametrize(
    ("scripted", "said"),
    [
        (Scripted(statuses=[503] * 9), r"returned status 503: the model is loading$"),
        (Scripted(statuses=[401], said="wrong key"), r"returned status 401: wrong key$"),
        (Scripted(way="none"), r"returns no probabilities of the text's tokens for base: it must support"),
        (Scripted(way="page"), r"did not return a response of the completions API; does the URL end in /v1\?$"),
        (Scripted(statuses=[400, 400], said="no model base"), r"rejects base: no model base$"),
    ],
    ids=["busy", "key", "no logprobs", "no API", "no model"],
)
def test_failures_give_one_line_errors(scripted: Scripted, said: str) -> None:
    with serving(scripted), pytest.raises(CompletionsError, match=said) as error:
        ask(scripted)
    assert "\n" not in str(error.value) and scripted.url in str(error.value)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_does_not_get_the_key(status: int) -> None:
    with serving(Scripted()) as other, serving(Scripted(statuses=[status] * 9)) as scripted:
        scripted.location = f"{other.url}/completions"
        with pytest.raises(CompletionsError, match=rf"returned status {status}: redirects are not followed$"):
            ask(scripted, key="secret")
    assert (scripted.keys, other.keys) == (["Bearer secret"], [])


def test_an_unreachable_server_is_reported() -> None:
    with serving(Scripted()) as scripted:
        pass
    with pytest.raises(CompletionsError, match=r"http://127.*cannot be reached"):
        ask(scripted)


def test_a_text_is_truncated_to_the_limit_and_to_the_models_context() -> None:
    long = "word " * 5000
    with serving(Scripted(context=2000)) as scripted:
        found = ask(scripted, long)
    sent = [len(request["prompt"]) for request in scripted.requests]
    assert sent == [CHARACTERS, CHARACTERS // 2, CHARACTERS // 4] and len(found) == pytest.approx(sent[-1] / 5, abs=2)


def test_the_key_is_sent_with_the_request() -> None:
    with serving(Scripted()) as scripted:
        ask(scripted, key="sk-base")
        ask(scripted)
    assert scripted.keys == ["Bearer sk-base", None]
