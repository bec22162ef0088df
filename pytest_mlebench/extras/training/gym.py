"""Episodes as a Gymnasium environment: actions are shell commands, and observations are their output.

Needs the extra ``gym``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, SupportsFloat

from pytest_mlebench.io.extensions import not_installed

try:
    import gymnasium
    from gymnasium import spaces
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(not_installed(__name__, "gym"), name=error.name) from None

from pytest_mlebench.extras.training.client import RemoteEpisode
from pytest_mlebench.extras.training.episode import Episode
from pytest_mlebench.extras.training.observation import Observation
from pytest_mlebench.grading.rewards import Measured


class AnyText(spaces.Space[str]):
    """The space of all strings. A sample is a command that does nothing."""

    def __init__(self) -> None:
        super().__init__(None, None)

    @property
    def is_np_flattenable(self) -> bool:
        return False

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        return "true"

    def contains(self, x: Any) -> bool:
        return isinstance(x, str)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AnyText)

    __hash__ = None  # type: ignore[assignment]


class CompetitionEnv(gymnasium.Env[str, str]):
    """An episode with Gymnasium's interface.

    ``info`` of a step has ``exit_code``, ``killed``, ``submission``, ``score``, ``percentile`` and ``medal``, but no
    times, which differ between episodes. At the end of an episode, it also has ``report``, from ``Episode.submit``.
    The action ``submit`` ends an episode.

    >>> from pytest_mlebench import Bench
    >>> with Bench(sandbox="local").episode("smoke-diabetes", data="real") as episode:
    ...     env = CompetitionEnv(episode)
    ...     _ = env.reset(seed=0)
    ...     output, reward, terminated, truncated, info = env.step("ls $DATA_DIR")
    >>> output.split()
    ['description.md', 'sample_submission.csv', 'test.csv', 'train.csv']
    """

    SUBMIT = "submit"
    metadata = {"render_modes": []}  # noqa: RUF012

    def __init__(self, episode: Episode | RemoteEpisode) -> None:
        self.episode = episode
        self.action_space = AnyText()
        self.observation_space = AnyText()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        number = int(self.np_random.integers(2**63)) if seed is None else seed
        observation = self.episode.reset(number)
        return as_text(observation), {"time_limit": observation.time_limit}

    def step(self, action: str) -> tuple[str, SupportsFloat, bool, bool, dict[str, Any]]:
        if action.strip() == self.SUBMIT:
            step = replace(self.episode.step("true"), terminated=True)
        else:
            step = self.episode.step(action)
        measured: Measured = step.info["measured"]
        info: dict[str, Any] = {
            "exit_code": step.exit_code,
            "killed": step.info["killed"],
            "submission": step.submission,
            "score": measured.score,
            "percentile": measured.percentile,
            "medal": measured.medal,
        }
        if step.terminated or step.truncated:
            info["report"] = self.episode.submit()
        return step.output, step.reward, step.terminated, step.truncated, info

    def close(self) -> None:
        self.episode.close()


def as_text(observation: Observation) -> str:
    """The text that an agent reads first."""
    files = "\n".join(f"{name}: {size:,} bytes" for name, size in sorted(observation.files.items()))
    heads = "\n\n".join(
        f"{name} begins:\n{text}" for name, text in observation.heads.items() if name != "description.md"
    )
    return f"{observation.instructions}\n\n{observation.description}\n\nFiles:\n{files}\n\n{heads}"
