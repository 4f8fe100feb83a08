"""A client of a broker whose turns are measured."""

import struct
from collections.abc import Iterable
from typing import Any

from siltstone.protocol.framing import FIRST_FLEXIBLE
from tests.support.running import Client
from tests.support.turns import Turns

_AT_ONCE = 500


class TurnAsker:
    """A client that writes and reads messages by tables; ``longest`` is of its last request."""

    def __init__(self, client: Client, turns: Turns) -> None:
        self._client = client
        self._turns = turns
        self.longest = 0.0

    async def ask(self, module: Any, version: int, request: Any) -> Any:
        """Return an answer; ``longest`` is the longest turn since the request was sent."""
        frame = _frame(module, version, request)
        self._turns.begin()
        await self._client.send(frame)
        answer = await self._receive(module, version)
        before = self._turns.count
        while self._turns.count == before:  # waits until the turn of the answer has ended
            await self._turn()
        self.longest = self._turns.longest
        return answer

    async def ask_all(self, module: Any, version: int, requests: Iterable[Any]) -> list[Any]:
        """Send many requests, and return their answers."""
        frames = [_frame(module, version, request) for request in requests]
        answers = []
        for start in range(0, len(frames), _AT_ONCE):
            some = frames[start : start + _AT_ONCE]
            await self._client.send(b"".join(some))
            answers += [await self._receive(module, version) for _ in some]
        return answers

    async def close(self) -> None:
        """Leave."""
        await self._client.close()

    async def _receive(self, module: Any, version: int) -> Any:
        answer = await self._client.receive()
        head = 4 + _has_tags(module, version)
        return module.RESPONSE.read(version, answer, head, len(answer), len(answer))[0]

    async def _turn(self) -> None:
        await self._client.send(struct.pack(">ihhih", 10, 18, 0, 1, -1))
        await self._client.receive()


def _has_tags(module: Any, version: int) -> bool:
    return version >= FIRST_FLEXIBLE[module.REQUEST.key]


def _frame(module: Any, version: int, request: Any) -> bytes:
    head = struct.pack(">hhih", module.REQUEST.key, version, 7, -1)
    head += bytes(_has_tags(module, version))
    body: bytes = module.REQUEST.write(version, request)
    return struct.pack(">i", len(head) + len(body)) + head + body
