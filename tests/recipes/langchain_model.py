# SPDX-License-Identifier: Apache-2.0
"""LangChain's fake model with a script of tool calls, which keeps what it was shown."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage

_ids = itertools.count(1)


class ScriptedModel(GenericFakeChatModel):
    """Says what the script has, one after the other, and fails when that is over."""

    seen: list[BaseMessage] = []  # noqa: RUF012 # pydantic copies it

    @classmethod
    def of(cls, script: Iterable[AIMessage | str]) -> ScriptedModel:
        """With this script."""
        return cls(messages=iter(script))

    def bind_tools(self, tools: Any, **kwargs: Any) -> ScriptedModel:
        """It knows its tools from the script."""
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> Any:
        self.seen = list(messages)
        return super()._generate(messages, *args, **kwargs)


def call(name: str, **args: Any) -> AIMessage:
    """The model wants a tool called."""
    return AIMessage("", tool_calls=[{"name": name, "args": args, "id": f"call-{next(_ids)}"}])
