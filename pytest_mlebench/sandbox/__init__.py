"""Sandboxes, in which agents run: the contract, its implementations, and the submission checker."""

from pytest_mlebench.records.outcome import Connection, Ending, Limits, SandboxAccount, Validation
from pytest_mlebench.sandbox.contract import AddedSandbox, ContainerSandbox, Execution, Sandbox, Task

__all__ = [
    "AddedSandbox",
    "Connection",
    "ContainerSandbox",
    "Ending",
    "Execution",
    "Limits",
    "Sandbox",
    "SandboxAccount",
    "Task",
    "Validation",
]
