"""Random conversations, whole and damaged, and the requests that are made from them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast import (
    File,
    Image,
    Message,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    system,
)
from holdfast.model.message import UnknownPart
from holdfast.runtime.agent.context import Frame, build
from holdfast.runtime.providers import anthropic_request, openai_request
from holdfast.runtime.providers.openai import ENDPOINT
from tests.runtime.providers.asking import LOOK
from tests.runtime.request_validators import anthropic_complaints, openai_complaints

PNG = "iVBORw0KGgo="
OUTCOMES = ["completed", "failed", "cancelled", "denied", "never_ran", "unknown"]
STOPS = ["end", "tool_calls", "length", "refusal", "interrupted", None]
ODD_IDS = ["", "same", "call_0", "functions.bash:0", "x" * 60, "é\ud800", "a b"]
NAMES = ["look", "", "mcp.server/tool name", "n" * 80, "naïve\udfff"]
# With a budget, adaptive and silent unless asked, adaptive and thinking unasked, another vendor's.
CLAUDES = ["claude-haiku-4-5", "claude-opus-4-6", "claude-sonnet-5-5", "deepseek-chat"]
OTHERS = ["gpt-6-sol", "deepseek-chat", "local"]
MODELS = [*CLAUDES, *OTHERS, None]


def frames(**more: Any) -> st.SearchStrategy[Frame]:
    names = st.one_of(
        st.tuples(st.just("anthropic"), st.sampled_from(CLAUDES)),
        st.tuples(st.just("openai"), st.sampled_from(OTHERS)),
    )
    systems = st.sampled_from([None, "  ", "Be kind."])
    return st.builds(
        lambda name, prompt, thinking, tools: Frame(
            provider=name[0], model=name[1], system=prompt, thinking=thinking, tools=tools, **more
        ),
        names,
        systems,
        st.sampled_from([0, 1, 4000]),
        st.sampled_from([[], [LOOK]]),
    )


def wire(messages: list[Message], frame: Frame) -> dict[str, Any]:
    """Return the body of the request for a conversation."""
    request = build(messages, frame)
    if frame.provider == "anthropic":
        return anthropic_request.parameters(request)
    wants = openai_request.quirks(ENDPOINT, frame.model, tools=bool(frame.tools))
    return openai_request.parameters(request, wants)


def complaints(messages: list[Message], frame: Frame) -> list[str]:
    check = anthropic_complaints if frame.provider == "anthropic" else openai_complaints
    return check(wire(messages, frame))


class Conversation:
    """Draws the parts of one conversation; every word and call in it is marked with a number."""

    def __init__(self, draw: Any) -> None:
        self._draw = draw
        self._count = 0

    def mark(self, kind: str) -> str:
        self._count += 1
        return f"<{kind} {self._count}>"

    def some(self, *choices: Any) -> Any:
        return self._draw(st.sampled_from(choices))

    def many(self, most: int, least: int = 0) -> range:
        return range(self._draw(st.integers(least, most)))

    def prompt(self) -> Message:
        word = Text(text=self.mark("said") + self.some("", "\ud800", " é", "\n"))
        more = self.some(
            [],
            [Image(media_type="image/png", data=PNG)],
            [Image(media_type="image/tiff", data=PNG)],
            [Image(media_type="image/png", url="file:///a.png")],
            [Image(media_type="image/png")],
            [File(name="a.txt", media_type="text/plain", data="aGk=")],
            [Text(text=" ")],
            [UnknownPart(fields={"type": "novel"})],
        )
        return Message(role="user", content=self.some([word, *more], [*more, word]))

    def thoughts(self) -> list[Any]:
        return list(
            self.some(
                [],
                [Thinking(text="Hm.", signature="EqQB")],
                [Thinking(text="", signature="EqQC")],
                [Thinking(text="Hm.")],
                [Thinking(text="Hm.", signature="")],
                [Opaque(vendor="anthropic", data={"type": "redacted_thinking", "data": "x"})],
            )
        )

    def opaque(self) -> list[Any]:
        name = f"srv{self.mark('')[2:-1]}"
        call = {"type": "server_tool_use", "id": name, "name": "web_search", "input": {}}
        result = {"type": "web_search_tool_result", "tool_use_id": name, "content": []}
        blocks = self.some(
            [], [], [call, result], [call], [result], [{"type": "tool_use"}], ["?"], [{"x": 1}]
        )
        vendor = self.some("anthropic", "anthropic", "gemini")
        return [Opaque(vendor=vendor, data=data) for data in blocks]

    def call(self, *, odd: bool) -> ToolCall:
        call_id = self.mark("id")[1:-1].replace(" ", "_")
        arguments: Any = {"mark": self.mark("call")}
        if odd:
            call_id = self.some(call_id, *ODD_IDS)
        return ToolCall(id=call_id, name=self.some(*NAMES), arguments=arguments)

    def answer(self, models: list[str | None], *, odd: bool, calls: bool) -> Message:
        words = [Text(text=self.mark("answer"))] if not calls or self.some(True, False) else []
        wanted = [self.call(odd=odd) for _ in self.many(3, 1)] if calls else []
        return Message(
            role="assistant",
            content=[*self.thoughts(), *self.opaque(), *words, *wanted],
            model=self.some(*models),
            stop="tool_calls" if calls else self.some("end", "length", "refusal", None),
        )

    def result(self, call: ToolCall) -> ToolResult:
        content = self.some(
            [Text(text=self.mark("result"))],
            [Text(text=self.mark("result")), Image(media_type="image/png", data=PNG)],
            [Text(text=self.mark("result")), Thinking(text="no"), Text(text="\udfff")],
            [Text(text=self.mark("result") + "much " * 1000)],
        )
        return ToolResult(call_id=call.id, content=content, outcome=self.some(*OUTCOMES))

    def results(self, answer: Message) -> list[Message]:
        """Answer all calls, in one message or several."""
        found = [self.result(part) for part in answer.content if isinstance(part, ToolCall)]
        if self.some(True, False):
            return [Message(role="tool", content=[each]) for each in found]
        return [Message(role="tool", content=list(found))] if found else []

    def broken(self, models: list[str | None]) -> Message:
        """Return an answer as recovery writes it: no signatures, calls half received."""
        half = ToolCall(id="half", name="look", arguments={}, partial='{"a')
        text = Text(text=self.mark("answer"))
        content = self.some([text], [half], [text, half], [Thinking(text="Hm."), text])
        return Message(
            role="assistant", content=content, model=self.some(*models), stop="interrupted"
        )


@st.composite
def whole(draw: Any) -> list[Message]:
    """A conversation as the agent writes it: every call is answered."""
    talk = Conversation(draw)
    said: list[Message] = []
    for _ in talk.many(4, 1):
        said.append(talk.prompt())
        for _ in talk.many(3):
            said.append(talk.answer(MODELS, odd=False, calls=True))
            said += talk.results(said[-1])
        said.append(talk.answer(MODELS, odd=False, calls=False))
    return said


@st.composite
def damaged(draw: Any) -> list[Message]:
    """Any conversation at all, as crashes, other agents and other providers leave them."""
    talk = Conversation(draw)
    said: list[Message] = []
    for _ in talk.many(4):
        said += [talk.prompt() for _ in talk.many(2)]
        if talk.some(True, False, False):
            said.append(system("The rules have changed."))
        for _ in talk.many(3):
            said.append(talk.answer(MODELS, odd=True, calls=True))
            said += talk.results(said[-1])
        said.append(talk.some(talk.answer(MODELS, odd=True, calls=False), talk.broken(MODELS)))
    for _ in talk.many(6):
        if said:
            _damage(talk, said)
    return said


def _damage(talk: Conversation, said: list[Message]) -> None:
    at = talk.some(*range(len(said)))
    message = said[at]
    match talk.some("cut", "behead", "drop", "double", "move", "stop", "ids", "half", "merge"):
        case "cut":
            del said[at:]
        case "behead":
            del said[:at]
        case "drop":
            del said[at]
        case "double":
            said.insert(talk.some(*range(len(said))), message)
        case "move":
            del said[at]
            said.insert(talk.some(*range(len(said) + 1)), message)
        case "stop":
            said[at] = replace(message, stop=talk.some(*STOPS))
        case "ids":
            said[at] = replace(message, content=[_renamed(talk, part) for part in message.content])
        case "half":
            said[at] = replace(message, content=[_halved(part) for part in message.content])
        case "merge":
            role = talk.some("user", "tool", "assistant", message.role)
            content = [*message.content, *said[at - 1].content]
            said[at] = replace(message, role=role, content=content)


def _renamed(talk: Conversation, part: Any) -> Any:
    if isinstance(part, ToolCall):
        return replace(part, id=talk.some(part.id, *ODD_IDS))
    if isinstance(part, ToolResult):
        return replace(part, call_id=talk.some(part.call_id, *ODD_IDS))
    return part


def _halved(part: Any) -> Any:
    return replace(part, partial="{") if isinstance(part, ToolCall) else part
