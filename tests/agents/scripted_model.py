"""A model that solves the smoke competitions by a script, with the tools that an agent offers, over any API.

It looks around, runs a program that fails, edits it, reruns it, has the submission checked, and is done. It derives its
position from the conversation, so requests may be repeated, and side questions (a title, for example) change nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.llm.upstreams import Move

PROGRAM = """
import os
import pandas as pd
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

data, submission = os.environ["DATA_DIR"], os.environ["SUBMISSION_DIR"]
train, test, sample = (pd.read_csv(f"{data}/{name}.csv") for name in ("train", "test", "sample_submission"))
target = "no_such_column"
features, labels = train.columns.drop(["id", target]), train[target]
if labels.nunique() == 2:
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.5, max_iter=5000)).fit(train[features], labels)
    test[target] = model.predict_proba(test[features])[:, 1]
elif labels.nunique() < 20:
    test[target] = SVC(C=10).fit(train[features], labels).predict(test[features])
else:
    model = make_pipeline(StandardScaler(), KernelRidge(alpha=0.3, kernel="rbf", gamma=0.005))
    test[target] = model.fit(train[features], labels - labels.mean()).predict(test[features]) + labels.mean()
test[["id", target]].to_csv(f"{submission}/submission.csv", index=False)
print("solved", target)
"""
MISTAKE, RIGHT = 'target = "no_such_column"', "target = sample.columns[-1]"
FAILED, SOLVED = "no_such_column", "solved "
DONE = "The submission is there and it is well formed."
AGAIN = "Improve your result"


@dataclass(frozen=True)
class Shell:
    command: str


@dataclass(frozen=True)
class Edit:
    path: str
    old: str
    new: str


@dataclass
class ScriptedModel:
    """``code`` is the path of the agent's code folder; ``last`` is a command that replaces the final answer.

    ``rest`` is repeated forever after the steps; if ``patient``, only after it has finished and is asked again.
    """

    code: str = "/home/code"
    last: str = ""
    steps: list[Shell | Edit] = field(default_factory=list)
    rest: Shell | None = None
    patient: bool = False
    used: set[str] = field(default_factory=set)
    """The tools that were called."""
    prompts: list[Any] = field(default_factory=list)
    """The conversations of the requests, newest last, without side questions."""

    def __post_init__(self) -> None:
        file = f"{self.code}/solve.py"
        self.steps = self.steps or [
            Shell("ls -l $DATA_DIR && head -n 2 $DATA_DIR/train.csv"),
            Shell(f"cat > {file} <<'PROGRAM'\n{PROGRAM}\nPROGRAM\npython {file}"),
            Edit(file, MISTAKE, RIGHT),
            Shell(f"python {file} && $AGENT_DIR/../validate_submission.sh $SUBMISSION_DIR/submission.csv"),
        ]

    def __call__(self, body: dict[str, Any]) -> Move:
        tools = tools_of(body)
        shell = next((name for name, schema in tools.items() if _shell_argument(name, schema)), None)
        if shell is None and "exec" not in tools:
            return Move("A competition")
        self.prompts.append(body)
        done = results_in(body)
        moves = [move for step in self.steps for move in self._moves(step, tools, shell)]
        if done < len(moves):
            move = moves[done]
        elif last := self._after_steps(AGAIN in json.dumps(body)):
            (move,) = self._moves(last, tools, shell)
        else:
            return Move(DONE)
        self.used.add(move.tool)
        return Move(tool=move.tool, arguments=move.arguments, id=f"call_{done}")

    def _after_steps(self, asked_again: bool) -> Shell | None:
        if self.rest and (asked_again or not self.patient):
            return self.rest
        return Shell(self.last) if self.last else None

    def _moves(self, step: Shell | Edit, tools: Mapping[str, Any], shell: str | None) -> list[Move]:
        if shell is None:
            return [_javascript(step)]
        if isinstance(step, Shell):
            return [self._shell(step.command, shell, tools[shell])]
        for name, schema in tools.items():
            if arguments := _edit_arguments(schema, step):
                # Some agents refuse to edit what they have not read.
                return [*_read(tools, step.path), Move(tool=name, arguments=arguments)]
        return [self._shell(f"sed -i 's/{step.old}/{step.new}/' {step.path}", shell, tools[shell])]

    def _shell(self, command: str, tool: str, schema: Any) -> Move:
        argument = _shell_argument(tool, schema)
        value: Any = command
        if _properties(schema)[argument].get("type") == "array":
            value = ["bash", "-lc", command]
        # OpenHands' terminal otherwise returns after half a minute without output, which happens on a busy machine.
        patience = {"timeout": 600} if tool == "terminal" and "timeout" in _properties(schema) else {}
        return Move(tool=tool, arguments=_filled(schema, {argument: value, **patience}))


class ScriptedPrograms(ScriptedModel):
    """The same for an agent that runs programs from the model's answers, and requests a review of each with a tool."""

    def __call__(self, body: dict[str, Any]) -> Move:
        for tool in tools_of(body):
            failed = "KeyError" in json.dumps(body)
            review = {"is_bug": failed, "summary": "reviewed", "metric": None if failed else 0.9}
            return Move(tool=tool, arguments={**review, "lower_is_better": False})
        self.prompts.append(body)
        return Move(f"A step.\n\n```python\n{_program(self._step(len(self.prompts)))}\n```")

    def _step(self, number: int) -> Shell | Edit:
        return self.steps[number - 1] if number <= len(self.steps) else self.rest or self.steps[-1]


class ScriptedResearch(ScriptedPrograms):
    """The same for MLAgentBench's agent, which has actions in plain text instead of tools, and no shell.

    In each step, it has another prompt write a program to a file, and executes it.
    """

    written = executed = 0

    def __call__(self, body: dict[str, Any]) -> Move:
        prompt = str(body["messages"][-1]["content"])
        if "Edit the script by following the instruction" in prompt:
            self.written += 1
            return Move(f"```python\n{_program(self._step(self.written))}\n```")
        self.prompts.append(body)
        self.patient = self.patient and AGAIN not in prompt  # prompts hold for a few steps only
        script = {"script_name": "solve.py"}
        edit = {**script, "edit_instruction": "predict", "save_name": "solve.py"}
        if len(self.prompts) == 1:
            action, arguments = "List Files", {"dir_path": "."}
        elif self.executed < self.written:
            self.executed += 1
            action, arguments = "Execute Script", script
        elif self.written < len(self.steps) or self._after_steps(not self.patient):
            action, arguments = "Edit Script (AI)", edit
        else:
            action, arguments = "Final Answer", {"final_answer": DONE}
        entries = ("Reflection", "Research Plan and Status", "Fact Check", "Thought")
        lines = [f"{entry}: none" for entry in entries]
        return Move("\n".join([*lines, f"Action: {action}", f"Action Input: {json.dumps(arguments)}\n"]))


def _program(step: Shell | Edit) -> str:
    command = step.command if isinstance(step, Shell) else f"sed -i 's/{step.old}/{step.new}/' {step.path}"
    call = f"subprocess.run({command!r}, shell=True, stdout=-1, stderr=-2, text=True)"
    return f"import subprocess\nprint({call}.stdout)"


def tools_of(body: Mapping[str, Any]) -> dict[str, Any]:
    """The tools that a request offers and its client runs, with the schema of their arguments."""
    found = {}
    offered = list(body.get("tools") or ())
    for entry in body.get("input") or ():
        if entry.get("type") == "additional_tools":
            offered += (tool for group in entry["tools"] for tool in group.get("tools") or [group])
    for tool in offered:
        if isinstance(function := tool.get("function"), dict):
            found[function["name"]] = function.get("parameters")
        elif declared := tool.get("functionDeclarations"):
            for entry in declared:
                found[entry["name"]] = entry.get("parametersJsonSchema") or entry.get("parameters")
        elif "name" in tool:
            found[tool["name"]] = tool.get("input_schema") or tool.get("parameters")
    return found


def results_in(body: Mapping[str, Any]) -> int:
    """The number of tool results in a conversation."""
    count = 0
    for entry in body.get("messages") or body.get("input") or body.get("contents") or ():
        if entry.get("role") == "tool" or str(entry.get("type")).endswith("call_output"):
            count += 1
        blocks = entry.get("parts") or entry.get("content")
        for block in blocks if isinstance(blocks, list) else ():
            count += block.get("type") == "tool_result" or "functionResponse" in block
    return count


def _javascript(step: Shell | Edit) -> Move:
    """A step for Codex's newer models, whose only tool runs JavaScript that calls other tools."""
    if isinstance(step, Shell):
        call = f"exec_command({json.dumps({'cmd': step.command, 'yield_time_ms': 60_000})})"
    else:
        patch = f"*** Begin Patch\n*** Update File: {step.path}\n@@\n-{step.old}\n+{step.new}\n*** End Patch\n"
        call = f"apply_patch({json.dumps(patch)})"
    return Move(tool="exec", arguments=f"text(JSON.stringify(await tools.{call}))")


_SHELLS = {"bash", "shell", "shell_command", "exec_command", "run_shell_command", "execute_bash", "terminal"}
_READERS = {"read", "read_file"}
_PATHS, _OLD, _NEW = (
    ("path", "file_path", "filePath"),
    ("old", "old_string", "old_str", "oldString"),
    ("new", "new_string", "new_str", "newString"),
)


def _properties(schema: Any) -> dict[str, Any]:
    return dict((schema or {}).get("properties") or {})


def _shell_argument(name: str, schema: Any) -> str:
    if name.lower() not in _SHELLS:
        return ""
    return next((argument for argument in ("command", "cmd") if argument in _properties(schema)), "")


def _edit_arguments(schema: Any, step: Edit) -> dict[str, Any] | None:
    names = [next((name for name in among if name in _properties(schema)), None) for among in (_PATHS, _OLD, _NEW)]
    if None in names:
        return None
    given = dict(zip(map(str, names), (step.path, step.old, step.new), strict=True))
    if "str_replace" in (_properties(schema).get("command") or {}).get("enum", ()):
        given["command"] = "str_replace"
    return _filled(schema, given)


def _read(tools: Mapping[str, Any], path: str) -> list[Move]:
    for name, schema in tools.items():
        argument = next((argument for argument in _PATHS if argument in _properties(schema)), None)
        if name.lower() in _READERS and argument:
            return [Move(tool=name, arguments=_filled(schema, {argument: path}))]
    return []


def _filled(schema: Any, given: dict[str, Any]) -> dict[str, Any]:
    """The arguments, with a value for every required one."""
    empty = {"boolean": False, "integer": 60, "number": 60, "array": [], "object": {}}
    more = {}
    for name in schema.get("required") or ():
        kind = _properties(schema).get(name) or {}
        if name not in given:
            more[name] = (kind.get("enum") or [None])[0] or empty.get(str(kind.get("type")).lower(), "a step")
    return {**given, **more}
