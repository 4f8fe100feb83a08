"""The answer of a request: a frame now, or a coroutine that returns one later."""

from collections.abc import Coroutine
from typing import Any, TypeAlias

from siltstone.protocol.parts import Parts

Answer: TypeAlias = bytes | Parts | None
LateAnswer: TypeAlias = Coroutine[Any, Any, Answer]
