"""The errors that pytest-mlebench raises on purpose. Each message says what is wrong, where, and what to do."""


class MLEBenchError(Exception):
    """Base of all errors below; its text is meant for the user, without a traceback."""


def reason(error: Exception) -> str:
    """Why a file or folder could not be used, without Python's notation; the caller names the path."""
    if isinstance(error, OSError):
        return error.strerror or str(error)
    if isinstance(error, UnicodeDecodeError):
        return f"it is not UTF-8 text (byte {error.start + 1})"
    return str(error)


def unusable(error: OSError) -> str:
    """An error of the operating system as a line that names the path, if it is known."""
    return f"{error.filename}: {reason(error)}" if error.filename else reason(error)


class UsageError(MLEBenchError):
    """A name, option or file that the user gave does not hold."""


class CompetitionError(MLEBenchError):
    """A competition's folder is incomplete or its ``competition.yaml`` is wrong."""


class DataError(MLEBenchError):
    """A competition's data is absent, damaged or could not be prepared."""


class InvalidSubmission(MLEBenchError):
    """A submission that cannot be scored; the text is the reason that the agent reads."""


class AgentError(MLEBenchError):
    """An agent's definition is wrong, or a secret that it needs is not set."""


class SandboxError(MLEBenchError):
    """The harness (not the agent) failed to provide or run a sandbox."""


class ClusterError(MLEBenchError):
    """An engine that runs are handed to does not answer, or refuses them."""
