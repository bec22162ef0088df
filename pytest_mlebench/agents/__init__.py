"""Agent definitions and their variants."""

from pytest_mlebench.agents.registry import Agent, AgentRegistry, Launch, Permissions, parse_agent_ids

__all__ = ["Agent", "AgentRegistry", "Launch", "Permissions", "parse_agent_ids"]
