"""A plain agent: a language model in a loop with a shell and two file tools, for three APIs.

It ends when the model calls no tool. Needs only Python. Use it as a starting point for your own agent.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

DEADLINE = float(os.environ["DEADLINE"])
OUTPUT = 20_000  # characters of a command's output that the model sees
HISTORY = 400_000  # characters of the conversation; beyond it, old outputs are left out
ATTEMPTS = int(os.environ.get("MODEL_ATTEMPTS", 10))  # per call, if the provider is overloaded or does not answer
TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
TOOLS = {
    "shell": ("Run a command with bash, for at most so many seconds.", {"command": TEXT, "seconds": NUMBER}),
    "write_file": ("Write a file.", {"path": TEXT, "content": TEXT}),
    "edit_file": ("Replace a text that occurs exactly once in a file.", {"path": TEXT, "old": TEXT, "new": TEXT}),
}
DECLARED = [  # name and description of each tool, with the schema of its arguments
    ({"name": name, "description": text}, {"type": "object", "properties": arguments, "required": list(arguments)})
    for name, (text, arguments) in TOOLS.items()
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--api", choices=APIS, required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--steps", type=int, default=10**9, help="maximum number of model calls")
    options = parser.parse_args()
    os.chdir(os.environ["CODE_DIR"])
    api_class, url = APIS[options.api]
    api = api_class(options.api, url, options.model)
    api.say(prompt("first"))
    idle = 0  # answers in a row that called no tool
    for step in range(options.steps):
        api.forget()
        text, calls = api.ask()
        print(f"\n[{step}] {text or ''}", flush=True)
        for id, name, arguments in calls:
            result = run(name, arguments)
            print(f"\n[{step}] {name} {str(arguments)[:2000]}\n{result}", flush=True)
            api.answer(id, name, result)
        idle = 0 if calls else idle + 1
        if idle and (os.environ.get("UNTIL") != "limit" or time.time() > DEADLINE - 60 or idle == 3):
            return
        if idle:
            api.say(prompt("again"))


def prompt(what: str) -> str:
    script = Path(os.environ["AGENT_DIR"]).parent / "prompt.sh"
    return subprocess.run(["bash", script, what], check=True, capture_output=True, text=True).stdout


def run(name: str, arguments: object) -> str:
    """Run a tool. Errors are returned as text for the model."""
    try:
        match name, json.loads(arguments) if isinstance(arguments, str) else arguments:
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
    limited = ["timeout", "--signal=KILL", str(seconds), "bash", "-c", command]
    done = subprocess.run(limited, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    text = done.stdout.decode(errors="replace")
    if len(text) > OUTPUT:
        text = f"{text[: OUTPUT // 2]}\n[{len(text) - OUTPUT} characters left out]\n{text[-OUTPUT // 2 :]}"
    return f"{text}\n[{'killed' if done.returncode in (-9, 137) else f'exit status {done.returncode}'}]"


class Api:
    """A provider's API: its URL, and its format for conversations. ``history`` is in this format."""

    parts, output = "content", "content"

    def __init__(self, name: str, url: str, model: str) -> None:
        variable = "GOOGLE_GEMINI_BASE_URL" if name == "gemini" else f"{name.upper()}_BASE_URL"
        self.url, self.key = os.environ.get(variable, url).rstrip("/"), os.environ[f"{name.upper()}_API_KEY"]
        self.model, self.history, self.results = model, [], []

    def forget(self) -> None:
        """Remove the oldest tool results from a conversation that is too long."""
        while len(self.results) > 3 and len(json.dumps(self.history)) > HISTORY:
            self.results.pop(0).update({self.output: "[left out]"})

    def add(self, part: dict) -> None:
        if not self.history or self.history[-1]["role"] != "user":
            self.history.append({"role": "user", self.parts: []})
        self.history[-1][self.parts].append(part)

    def post(self, path: str, body: dict, headers: dict) -> dict:
        """Return the answer to one call. If the call cannot succeed, ends the agent with the provider's error."""
        headers = {"Content-Type": "application/json", **headers}
        for attempt in range(ATTEMPTS):
            request = urllib.request.Request(self.url + path, json.dumps(body).encode(), headers)
            try:
                with urllib.request.urlopen(request, timeout=1800) as answer:
                    return json.load(answer)
            except urllib.error.HTTPError as error:
                problem = f"{error.code} {error.read().decode(errors='replace')[:2000]}"
                if error.code not in (408, 409, 429, 500, 502, 503, 504, 529):
                    break
            except (OSError, ValueError) as error:
                problem = str(error)
            print(f"the model does not answer: {problem}", flush=True)
            time.sleep(max(0, min(2**attempt, DEADLINE - time.time())))
        sys.exit(f"the model cannot be asked: {problem}")


class OpenAI(Api):
    def say(self, text):
        self.history.append({"role": "user", "content": text})

    def answer(self, id, name, result):
        self.results.append({"role": "tool", "tool_call_id": id, "content": result})
        self.history.append(self.results[-1])

    def ask(self):
        tools = [{"type": "function", "function": {**tool, "parameters": schema}} for tool, schema in DECLARED]
        body = {"model": self.model, "messages": self.history, "tools": tools}
        answer = self.post("/chat/completions", body, {"Authorization": f"Bearer {self.key}"})
        message = answer["choices"][0]["message"]
        self.history.append({name: value for name, value in message.items() if value and name != "annotations"})
        calls = [(c["id"], c["function"]["name"], c["function"]["arguments"]) for c in message.get("tool_calls") or ()]
        return message.get("content"), calls


class Anthropic(Api):
    def say(self, text):
        self.add({"type": "text", "text": text})

    def answer(self, id, name, result):
        self.results.append({"type": "tool_result", "tool_use_id": id, "content": result})
        self.add(self.results[-1])

    def ask(self):
        tools = [{**tool, "input_schema": schema} for tool, schema in DECLARED]
        *before, last = self.history[-1]["content"]  # the next call pays less for the cached parts
        newest = {"role": "user", "content": [*before, {**last, "cache_control": {"type": "ephemeral"}}]}
        body = {"model": self.model, "max_tokens": 16_000, "tools": tools, "messages": [*self.history[:-1], newest]}
        headers = {"x-api-key": self.key, "anthropic-version": "2023-06-01"}
        content = self.post("/v1/messages", body, headers)["content"] or [{"type": "text", "text": "Done."}]
        self.history.append({"role": "assistant", "content": content})
        text = "".join(part["text"] for part in content if part["type"] == "text")
        return text, [(part["id"], part["name"], part["input"]) for part in content if part["type"] == "tool_use"]


class Gemini(Api):
    parts, output = "parts", "output"

    def say(self, text):
        self.add({"text": text})

    def answer(self, id, name, result):
        self.results.append({"output": result})
        self.add({"functionResponse": {"name": name, "response": self.results[-1]}})

    def ask(self):
        declarations = [{**tool, "parameters": schema} for tool, schema in DECLARED]
        body = {"contents": self.history, "tools": [{"functionDeclarations": declarations}]}
        path, headers = f"/v1beta/models/{self.model}:generateContent", {"x-goog-api-key": self.key}
        candidates = self.post(path, body, headers).get("candidates") or [{}]
        parts = (candidates[0].get("content") or {}).get("parts") or [{"text": "Done."}]
        self.history.append({"role": "model", "parts": parts})
        calls = [part["functionCall"] for part in parts if "functionCall" in part]
        text = "".join(part.get("text", "") for part in parts if not part.get("thought"))
        return text, [("", call["name"], call.get("args") or {}) for call in calls]


APIS = {
    "openai": (OpenAI, "https://api.openai.com/v1"),
    "openrouter": (OpenAI, "https://openrouter.ai/api/v1"),
    "anthropic": (Anthropic, "https://api.anthropic.com"),
    "gemini": (Gemini, "https://generativelanguage.googleapis.com"),
}

if __name__ == "__main__":
    main()
