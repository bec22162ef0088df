"""Validates trajectories by the JSON Schema of ATIF 1.8 and by the rules that a schema cannot express.

``atif-1.8.schema.json`` was generated from the models of Harbor 0.25.0 (https://pypi.org/project/harbor, Apache-2.0).
"""

from __future__ import annotations

import json
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any

SCHEMA = json.loads((Path(__file__).parent / "atif-1.8.schema.json").read_text())
_TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
_AGENTS_OWN = ("model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics")


def problems(trajectory: Any) -> list[str]:
    """The problems of a trajectory with their paths; empty if it is valid."""
    return [*_schema_problems(trajectory, SCHEMA, "it"), *_rule_problems(trajectory)]


def _schema_problems(value: Any, schema: dict[str, Any], where: str) -> list[str]:
    if "$ref" in schema:
        return _schema_problems(value, SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]], where)
    if "anyOf" in schema:
        found = [_schema_problems(value, one, where) for one in schema["anyOf"]]
        return [] if [] in found else max(found, key=len)
    if "enum" in schema and value not in schema["enum"]:
        return [f"{where} is {value!r}, not one of {schema['enum']}"]
    type = schema.get("type")
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if type == "integer" or type == "number":
        if not number or (type == "integer" and value != int(value)):
            return [f"{where} is {value!r}, no {type}"]
        return [f"{where} is below its minimum"] if value < schema.get("minimum", value) else []
    if type in _TYPES and not isinstance(value, _TYPES[type]):
        return [f"{where} is no {type}"]
    if type == "object":
        known = schema.get("properties", {})
        found = [[f"{where} lacks {name}"] for name in schema.get("required", ()) if name not in value]
        if schema.get("additionalProperties", True) is False:
            found += [[f"{where} has {name}"] for name in value.keys() - known.keys()]
        found += [_schema_problems(value[name], known[name], f"{where}.{name}") for name in value.keys() & known.keys()]
        return list(chain.from_iterable(found))
    if type == "array":
        if len(value) < schema.get("minItems", 0):
            return [f"{where} is too short"]
        items = (_schema_problems(one, schema["items"], f"{where}[{k}]") for k, one in enumerate(value))
        return list(chain.from_iterable(items))
    return []


def _rule_problems(trajectory: dict[str, Any]) -> list[str]:
    found = []
    for number, step in enumerate(trajectory["steps"], 1):
        where = f"step {number}"
        if step["step_id"] != number:
            found.append(f"{where} has the number {step['step_id']}")
        if step.get("timestamp"):
            datetime.fromisoformat(step["timestamp"])
        calls = [call["tool_call_id"] for call in step.get("tool_calls") or ()]
        if len(set(calls)) < len(calls):
            found.append(f"{where} has an id twice")
        for result in (step.get("observation") or {}).get("results", ()):
            if result.get("source_call_id") not in (None, *calls):
                found.append(f"{where} has the result of a call that it does not have")
        if step["source"] != "agent":
            found += [
                f"{where} is not the agent's and has {name}" for name in _AGENTS_OWN if step.get(name) is not None
            ]
        if step.get("llm_call_count") == 0 and (step.get("metrics") or step.get("reasoning_content")):
            found.append(f"{where} is of no model and has what only models have")
    others = trajectory.get("subagent_trajectories") or []
    ids = [other.get("trajectory_id") for other in others]
    if None in ids or len(set(ids)) < len(ids):
        found.append("the trajectories of sub-agents need ids of their own")
    return found + list(chain.from_iterable(map(_rule_problems, others)))
