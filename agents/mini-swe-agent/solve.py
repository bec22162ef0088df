"""mini-swe-agent's command, with an agent that continues the conversation from its output file, if there is one."""

import json
from typing import Any

from minisweagent.agents.default import DefaultAgent
from minisweagent.run.mini import app


class Continuing(DefaultAgent):
    def run(self, task: str = "", **more: Any) -> dict[str, Any]:
        path = self.config.output_path
        earlier = json.loads(path.read_text(encoding="utf-8"))["messages"] if path and path.exists() else []
        # The last command of a conversation has no result, but models' APIs require one.
        while earlier and earlier[-1]["role"] in ("exit", "assistant"):
            earlier.pop()
        self.earlier, self.task = earlier, task
        return super().run(task, **more)

    def add_messages(self, *messages: dict[str, Any]) -> list[dict[str, Any]]:
        if not self.messages and self.earlier:  # instead of the system message and the first prompt
            messages = (*self.earlier, self.model.format_message(role="user", content=self.task))
        return super().add_messages(*messages)


if __name__ == "__main__":
    app()
