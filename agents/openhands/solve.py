"""Sends one prompt from standard input to OpenHands. The next call continues the same conversation."""

import os
import sys
from uuid import UUID

from openhands.sdk import LLM, Conversation
from openhands.sdk.conversation.state import ConversationExecutionStatus
from openhands.tools.preset.default import get_default_agent
from pydantic import SecretStr


def main() -> None:
    llm = LLM(
        model=os.environ["MODEL"],
        base_url=os.environ["MODEL_URL"],
        api_key=SecretStr(os.environ["MODEL_KEY"]),
        num_retries=int(os.environ.get("MODEL_ATTEMPTS", "15")),
        timeout=3600,
        usage_id="agent",
    )
    conversation = Conversation(
        agent=get_default_agent(llm, cli_mode=True),  # without the browser
        workspace=os.environ["CODE_DIR"],
        persistence_dir=f"{os.environ['LOGS_DIR']}/openhands",
        conversation_id=UUID(int=1),
        max_iteration_per_run=int(os.environ["STEPS"]),
    )
    conversation.send_message(sys.stdin.read())
    conversation.run()
    status = conversation.state.execution_status
    conversation.close()
    if status == ConversationExecutionStatus.ERROR:
        sys.exit("OpenHands ended with an error; see above")


if __name__ == "__main__":
    main()
