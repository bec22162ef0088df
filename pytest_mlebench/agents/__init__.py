"""Who runs: agent definitions and their variants."""

from pytest_mlebench.agents.definition import Agent, AgentRegistry, Launch

__all__ = ["Agent", "AgentRegistry", "Launch"]
