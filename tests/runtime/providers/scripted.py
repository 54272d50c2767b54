"""A provider that answers from a list."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from holdfast import assistant
from holdfast.runtime.providers.base import Delta, Finished, Request, TextDelta, TokenCounts

END = Finished(assistant("ab", stop="end"), TokenCounts(1, 2))
WHOLE: list[Delta | Exception] = [TextDelta("a"), TextDelta("b"), END]


class FakeProvider:
    """Each request gets the next answer: deltas, and errors that are raised in their place."""

    name = "fake"
    endpoint: str | None = "http://fake.example"

    def __init__(self, *answers: list[Delta | Exception]) -> None:
        self.answers = list(answers)
        self.open = 0
        self.closed = False

    async def stream(self, request: Request) -> AsyncGenerator[Delta, None]:
        self.open += 1
        try:
            for each in self.answers.pop(0):
                if isinstance(each, Exception):
                    raise each
                yield each
        finally:
            self.open -= 1

    async def close(self) -> None:
        self.closed = True
