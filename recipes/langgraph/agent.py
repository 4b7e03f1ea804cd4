# SPDX-License-Identifier: Apache-2.0
"""A ReAct agent as a LangGraph graph: think, run Python in a sandbox, show what was drawn, think again."""

import sys
from pathlib import Path

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AnyMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from pandastack import CodeContext, Picture, Sandbox


def build_graph(model: BaseChatModel, ctx: CodeContext) -> CompiledStateGraph:
    @tool(response_format="content_and_artifact")
    def run_python(code: str) -> tuple[str, list[Picture]]:
        """Run Python. Variables stay from one call to the next; the last value and charts are shown to you."""
        return ctx.run_code(code).for_model()  # the text is for the model, the pictures are the artifact

    thinker = model.bind_tools([run_python])

    def think(state: MessagesState) -> dict[str, list[AnyMessage]]:
        return {"messages": [thinker.invoke(state["messages"])]}

    def show_charts(state: MessagesState) -> dict[str, list[AnyMessage]]:
        """The hop after a run: a tool's message is text for most models, so its charts follow in the user's."""
        images = [
            {"type": "image", "base64": picture.base64, "mime_type": picture.mime_type}
            for message in tool_messages_at_the_end(state["messages"])
            for picture in message.artifact or []
        ]
        text = {"type": "text", "text": "This is what was drawn:"}
        return {"messages": [HumanMessage([text, *images])] if images else []}

    graph = StateGraph(MessagesState)
    graph.add_node("think", think)
    graph.add_node("tools", ToolNode([run_python]))
    graph.add_node("show_charts", show_charts)
    graph.add_edge(START, "think")
    graph.add_conditional_edges("think", tools_condition)
    graph.add_edge("tools", "show_charts")
    graph.add_edge("show_charts", "think")
    return graph.compile()


def tool_messages_at_the_end(messages: list[AnyMessage]) -> list[ToolMessage]:
    last = next(i for i in reversed(range(len(messages))) if not isinstance(messages[i], ToolMessage))
    return [m for m in messages[last + 1 :] if isinstance(m, ToolMessage)]


def answer(question: str, model: BaseChatModel) -> list[AnyMessage]:
    """The whole conversation. One sandbox and one kernel for it, whatever happens."""
    sandbox = Sandbox.create(ttl_seconds=600, metadata={"recipe": "langgraph"})
    try:
        graph = build_graph(model, sandbox.create_code_context())
        return graph.invoke({"messages": [HumanMessage(question)]})["messages"]
    finally:
        sandbox.kill()


if __name__ == "__main__":
    messages = answer(" ".join(sys.argv[1:]), ChatOpenAI(model="gpt-5"))
    print(messages[-1].text)
    charts = [p for m in messages if isinstance(m, ToolMessage) for p in m.artifact or []]
    for number, chart in enumerate(charts, 1):
        Path(f"chart-{number}.png").write_bytes(chart.data)
