# SPDX-License-Identifier: Apache-2.0
"""A conversation that goes on tomorrow: its kernel lives from turn to turn, and each turn ends with a snapshot."""

import contextlib
import json
import sys
from pathlib import Path

from pandastack import Client, CodeContext, NotFoundError, Sandbox
from pydantic_ai import Agent, BinaryContent, ModelMessagesTypeAdapter, RunContext
from pydantic_ai.models import Model

agent = Agent(
    deps_type=CodeContext,
    instructions="Compute with run_python. Its variables stay for the whole conversation, however long it pauses.",
)


@agent.tool
def run_python(run: RunContext[CodeContext], code: str) -> str | list[str | BinaryContent]:
    """Run Python. What it prints, the last value, the traceback and charts are shown to you."""
    text, pictures = run.deps.run_code(code).for_model()
    images = [BinaryContent(p.data, media_type=p.mime_type) for p in pictures]
    return [text, *images] if images else text  # a list of text alone would be JSON for the model


class Session:
    """A file: what was said, the sandbox, and the snapshot to go on from when that sandbox is gone."""

    def __init__(self, path: Path) -> None:
        self.path = path
        saved = json.loads(path.read_text()) if path.exists() else {}
        self.messages = ModelMessagesTypeAdapter.validate_python(saved.get("messages", []))
        self.sandbox_id, self.context_id, self.snapshot_id = saved.get("machine", (None, None, None))

    def kernel(self) -> CodeContext:
        """That of the last turn: in its sandbox if that still lives, else in a new one from the snapshot."""
        try:
            sandbox = Sandbox.connect(self.sandbox_id or "none")
        except NotFoundError:
            about = {"recipe": "persistent-sessions", "session": self.path.stem}
            # So long the machine waits, warm, for the next turn; after that the snapshot is enough.
            sandbox = Sandbox.create(from_snapshot=self.snapshot_id, ttl_seconds=900, metadata=about)
        self.sandbox_id = sandbox.id
        ctx = CodeContext(sandbox, self.context_id) if self.context_id else sandbox.create_code_context()
        self.context_id = ctx.id  # which it also has in a sandbox from the snapshot
        return ctx

    def turn(self, question: str, model: str | Model) -> str:
        """An answer. What it took is kept before it is given; of a turn that fails nothing is."""
        ctx = self.kernel()
        try:
            run = agent.run_sync(question, model=model, deps=ctx, message_history=self.messages)
            old, self.snapshot_id = self.snapshot_id, ctx.sandbox.snapshot()
        except BaseException:
            ctx.sandbox.kill()  # the next turn goes on from the last snapshot
            raise
        self.messages = run.all_messages()
        machine = (self.sandbox_id, self.context_id, self.snapshot_id)
        self.path.write_text(json.dumps({"machine": machine, "messages": json.loads(run.all_messages_json())}))
        if old:
            ctx.sandbox.client.snapshots.delete(old)
        return run.output

    def end(self) -> None:
        """Nothing of it stays."""
        with contextlib.suppress(NotFoundError):
            Sandbox.get(self.sandbox_id or "none").kill()
        with contextlib.suppress(NotFoundError), Client() as client:
            client.snapshots.delete(self.snapshot_id or "none")
        self.path.unlink(missing_ok=True)


if __name__ == "__main__":
    session = Session(Path(sys.argv[1]))
    if question := " ".join(sys.argv[2:]):
        print(session.turn(question, "openai:gpt-5"))
    else:
        session.end()
