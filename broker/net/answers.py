"""What a request comes to: the frame that answers it, now or later."""

from collections.abc import Coroutine
from typing import Any, TypeAlias

from siltstone.protocol.parts import Parts

Answer: TypeAlias = bytes | Parts | None
LateAnswer: TypeAlias = Coroutine[Any, Any, Answer]
