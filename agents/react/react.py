"""A plain agent: a language model in a loop with a shell and two file tools, over any of three APIs.

It ends when the model calls no tool. Needs nothing but Python; write your own agent from it.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

OUTPUT = 20_000  # characters of a command's output that the model sees
HISTORY = 400_000  # characters of the conversation; beyond it, old outputs are left out
ATTEMPTS = int(
    os.environ.get("MODEL_ATTEMPTS", 10)
)  # at a call that the provider refuses as overloaded, or does not answer
TEXT = {"type": "string"}
TOOLS = {
    "shell": ("Run a command with bash and get its output.", {"command": TEXT, "seconds": {"type": "integer"}}),
    "write_file": ("Write a file.", {"path": TEXT, "content": TEXT}),
    "edit_file": (
        "Replace a text, which must occur exactly once, in a file.",
        {"path": TEXT, "old": TEXT, "new": TEXT},
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--api", choices=APIS, required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--steps", type=int, default=10**9, help="the most calls of the model")
    options = parser.parse_args()
    os.chdir(os.environ["CODE_DIR"])
    api = APIS[options.api](options.model)
    api.say(prompt("first"))
    idle = 0  # answers in a row that called no tool
    for step in range(options.steps):
        forget(api.history)
        text, calls = api.ask()
        if text:
            print(f"\n[{step}] {text}", flush=True)
        for id, name, arguments in calls:
            result = run(name, arguments)
            print(f"\n[{step}] {name} {json.dumps(arguments)[:2000]}\n{result}", flush=True)
            api.answer(id, name, result)
        idle = 0 if calls else idle + 1
        if not calls:
            if os.environ.get("UNTIL") != "limit" or left() < 60 or idle == 3:
                return
            api.say(prompt("again"))


def prompt(what: str) -> str:
    script = Path(os.environ["AGENT_DIR"]).parent / "prompt.sh"
    return subprocess.run(["bash", script, what], check=True, capture_output=True, text=True).stdout


def left() -> float:
    return float(os.environ["DEADLINE"]) - time.time()


def run(name: str, arguments: object) -> str:
    """What a tool gives; every mistake is the model's to read."""
    try:
        match name, arguments:
            case "shell", {"command": str(command), **options}:
                return shell(command, min(float(options.get("seconds") or 1e6), 1e6))
            case "write_file", {"path": str(path), "content": str(content)}:
                Path(path).parent.mkdir(parents=True, exist_ok=True)
                return f"{Path(path).write_text(content)} characters written"
            case "edit_file", {"path": str(path), "old": str(old), "new": str(new)}:
                if (found := (text := Path(path).read_text()).count(old)) != 1:
                    return f"error: the old text occurs {found} times"
                Path(path).write_text(text.replace(old, new))
                return "done"
        return f"error: {name} takes {', '.join(TOOLS[name][1])}" if name in TOOLS else f"error: no tool {name}"
    except (OSError, ValueError) as error:
        return f"error: {error}"


def shell(command: str, seconds: float) -> str:
    process = subprocess.Popen(
        ["bash", "-c", command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        output, end = process.communicate(timeout=seconds)[0], f"exit status {process.returncode}"
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, end = process.communicate()[0], f"stopped after {seconds:.0f} s"
    text = output.decode(errors="replace")
    if len(text) > OUTPUT:
        text = f"{text[: OUTPUT // 2]}\n[{len(text) - OUTPUT} characters left out]\n{text[-OUTPUT // 2 :]}"
    return f"{text}\n[{end}]"


def forget(history: list) -> None:
    """Leave old outputs out of a conversation that is too long, in whatever form they stand there."""
    excess = len(json.dumps(history)) - HISTORY
    for value in history[1:-6]:
        open_values = [value] if excess > 0 else []
        while open_values:
            value = open_values.pop()
            for name in value if isinstance(value, dict) else range(len(value)):
                if isinstance(value[name], dict | list):
                    open_values.append(value[name])
                elif name in ("content", "output") and len(value[name] or "") > 200:
                    excess -= len(value[name])
                    value[name] = "[left out]"


class Api:
    """A provider's API: where it is, and what a conversation looks like in it. ``history`` is in the API's own form."""

    variable, default, key, parts = "", "", "", "content"

    def __init__(self, model: str) -> None:
        self.model, self.history = model, []

    def add(self, part: dict) -> None:
        if not self.history or self.history[-1]["role"] != "user":
            self.history.append({"role": "user", self.parts: []})
        self.history[-1][self.parts].append(part)

    def post(self, path: str, body: dict, headers: dict) -> dict:
        """The answer to one call. What cannot succeed ends the agent, with the provider's own words."""
        url = os.environ.get(self.variable, self.default).rstrip("/") + path
        headers = {"Content-Type": "application/json", **headers}
        for attempt in range(ATTEMPTS):
            try:
                request = urllib.request.Request(url, json.dumps(body).encode(), headers)
                with urllib.request.urlopen(request, timeout=1800) as answer:
                    return json.load(answer)
            except urllib.error.HTTPError as error:
                problem = f"{error.code} {error.read().decode(errors='replace')[:2000]}"
                if error.code not in (408, 409, 429, 500, 502, 503, 504, 529):
                    break
                if error.headers.get("x-should-retry") == "false":
                    break
            except (OSError, ValueError) as error:
                problem = str(error)
            print(f"the model does not answer: {problem}", flush=True)
            time.sleep(max(0, min(2**attempt, left())))
        sys.exit(f"the model cannot be asked: {problem}")


class OpenAI(Api):
    variable, default, key = "OPENAI_BASE_URL", "https://api.openai.com/v1", "OPENAI_API_KEY"

    def say(self, text):
        self.history.append({"role": "user", "content": text})

    def answer(self, id, name, result):
        self.history.append({"role": "tool", "tool_call_id": id, "content": result})

    def ask(self):
        tools = [{"type": "function", "function": {**tool, "parameters": schema}} for tool, schema in declared()]
        body = {"model": self.model, "messages": self.history, "tools": tools}
        answer = self.post("/chat/completions", body, {"Authorization": f"Bearer {os.environ[self.key]}"})
        message = answer["choices"][0]["message"]
        self.history.append({name: value for name, value in message.items() if value and name != "annotations"})
        calls = [(c["id"], c["function"]["name"], c["function"]["arguments"]) for c in message.get("tool_calls") or ()]
        return message.get("content"), [(id, name, parsed(arguments)) for id, name, arguments in calls]


class OpenRouter(OpenAI):
    variable, default, key = "OPENROUTER_BASE_URL", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"


class Anthropic(Api):
    variable, default, key = "ANTHROPIC_BASE_URL", "https://api.anthropic.com", "ANTHROPIC_API_KEY"

    def say(self, text):
        self.add({"type": "text", "text": text})

    def answer(self, id, name, result):
        self.add({"type": "tool_result", "tool_use_id": id, "content": result})

    def ask(self):
        tools = [{**tool, "input_schema": schema} for tool, schema in declared()]
        *before, last = self.history[-1]["content"]  # all up to the last part is cheaper the next time
        newest = {"role": "user", "content": [*before, {**last, "cache_control": {"type": "ephemeral"}}]}
        body = {"model": self.model, "max_tokens": 16_000, "tools": tools, "messages": [*self.history[:-1], newest]}
        headers = {"x-api-key": os.environ[self.key], "anthropic-version": "2023-06-01"}
        content = self.post("/v1/messages", body, headers)["content"] or [{"type": "text", "text": "Done."}]
        self.history.append({"role": "assistant", "content": content})
        text = "".join(part["text"] for part in content if part["type"] == "text")
        return text, [(part["id"], part["name"], part["input"]) for part in content if part["type"] == "tool_use"]


class Gemini(Api):
    variable, default = "GOOGLE_GEMINI_BASE_URL", "https://generativelanguage.googleapis.com"
    key, parts = "GEMINI_API_KEY", "parts"

    def say(self, text):
        self.add({"text": text})

    def answer(self, id, name, result):
        self.add({"functionResponse": {"name": name, "response": {"output": result}}})

    def ask(self):
        declarations = [{**tool, "parameters": schema} for tool, schema in declared()]
        body = {"contents": self.history, "tools": [{"functionDeclarations": declarations}]}
        path, headers = f"/v1beta/models/{self.model}:generateContent", {"x-goog-api-key": os.environ[self.key]}
        candidates = self.post(path, body, headers).get("candidates") or [{}]
        parts = (candidates[0].get("content") or {}).get("parts") or [{"text": "Done."}]
        self.history.append({"role": "model", "parts": parts})
        calls = [part["functionCall"] for part in parts if "functionCall" in part]
        text = "".join(part.get("text", "") for part in parts if not part.get("thought"))
        return text, [("", call["name"], call.get("args") or {}) for call in calls]


APIS = {"openai": OpenAI, "openrouter": OpenRouter, "anthropic": Anthropic, "gemini": Gemini}


def declared() -> Iterator[tuple[dict, dict]]:
    """Name and description of each tool, with the schema of its arguments."""
    for name, (text, properties) in TOOLS.items():
        needed = [argument for argument, kind in properties.items() if kind is TEXT]
        yield {"name": name, "description": text}, {"type": "object", "properties": properties, "required": needed}


def parsed(arguments: str) -> object:
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


if __name__ == "__main__":
    main()
