"""The errors that pytest-mlebench raises on purpose. Each message says what is wrong, where, and what to do."""

from __future__ import annotations

import math
from numbers import Real

_MAX_QUOTED = 100


class MLEBenchError(Exception):
    """Base class of errors whose message is shown to the user without a traceback.

    >>> from pytest_mlebench import default_catalogue
    >>> try:
    ...     default_catalogue()["smoke-digit"]
    ... except MLEBenchError as error:
    ...     print(error)
    unknown competition 'smoke-digit'; did you mean smoke-digits or smoke-diabetes?
    """


def reason(error: Exception) -> str:
    """Why a file or folder could not be used, in plain words; the caller adds the path."""
    if isinstance(error, OSError):
        return error.strerror or str(error)
    if isinstance(error, UnicodeDecodeError):
        return f"it is not UTF-8 text (byte {error.start + 1})"
    return str(error)


def unusable(error: OSError) -> str:
    """An operating system error as one line, with the path if it is known."""
    return f"{error.filename}: {reason(error)}" if error.filename else reason(error)


def expect(value: object, kind: type, what: str, how: str) -> None:
    """Raise TypeError unless an argument is of this type; the message says ``how`` to get one."""
    if not isinstance(value, kind):
        raise TypeError(f"{what} must be of type {kind.__name__}, not {type(value).__name__} ({how})")


def number(value: object, what: str, *, least: float | None = None) -> None:
    """Raise UsageError unless an argument is a finite number of at least ``least`` (None: above 0)."""
    try:
        is_finite = isinstance(value, Real) and math.isfinite(value)
    except OverflowError:  # an integer beyond all floats
        is_finite = False
    if not isinstance(value, Real) or not is_finite or (value <= 0 if least is None else value < least):
        expected = "above 0" if least is None else f"of at least {least:g}"
        raise UsageError(f"{what} must be a number {expected}, not {quoted(value)}")


def quoted(value: object) -> str:
    """A value in an error message, shortened."""
    try:
        text = repr(value)
    except ValueError:
        return "a number of thousands of digits"
    return text if len(text) <= _MAX_QUOTED else f"{text[:_MAX_QUOTED]}…"


class UsageError(MLEBenchError):
    """A name, option or file that the user gave is invalid.

    >>> from pytest_mlebench import default_catalogue
    >>> try:
    ...     default_catalogue()["spaceship-titanik"]
    ... except UsageError as error:
    ...     print(error)
    unknown competition 'spaceship-titanik'; did you mean spaceship-titanic?
    """


class CompetitionError(MLEBenchError):
    """A competition's folder is incomplete or its ``competition.yaml`` is invalid.

    >>> from pathlib import Path
    >>> from pytest_mlebench import Competition
    >>> try:
    ...     Competition.load(Path("no-such-folder"))
    ... except CompetitionError as error:
    ...     print("no competition")
    no competition
    """


class DataError(MLEBenchError):
    """A competition's data is absent, damaged or could not be prepared.

    >>> from pathlib import Path
    >>> from pytest_mlebench import DataStore, Grader, default_catalogue
    >>> competition = default_catalogue()["smoke-digits"]
    >>> try:
    ...     Grader(competition, DataStore(Path("empty")).dataset(competition))
    ... except DataError as error:
    ...     print("not prepared")
    not prepared
    """


class InvalidSubmission(MLEBenchError):
    """A submission that cannot be scored; the message is the reason that the agent reads.

    >>> import pandas as pd
    >>> from pytest_mlebench.authoring import predictions
    >>> answers = pd.DataFrame({"id": [1, 2], "price": [10.0, 20.0]})
    >>> try:
    ...     predictions(answers.head(1), answers, "price", on="id")
    ... except InvalidSubmission as error:
    ...     print("invalid")
    invalid
    """


class GraderDefect(Exception):
    """A competition's ``grade.py`` raised an exception other than InvalidSubmission, which is the cause."""


class AgentError(MLEBenchError):
    """An agent's definition is invalid, or a secret that it needs is not set.

    >>> from pytest_mlebench import default_agents
    >>> try:
    ...     default_agents()["react"].launch()
    ... except AgentError as error:
    ...     print("OPENAI_API_KEY" in str(error))
    True
    """


class SandboxError(MLEBenchError):
    """The harness (not the agent) failed to provide or run a sandbox.

    >>> from pytest_mlebench import LocalSandbox
    >>> try:
    ...     LocalSandbox(network="none")
    ... except SandboxError as error:
    ...     print(error)
    the local sandbox cannot keep an agent from the network: use --sandbox=docker
    """


class ClusterError(MLEBenchError):
    """An engine does not respond, or rejects a run."""
