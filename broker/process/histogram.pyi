from typing import Final

BOUNDS_SECONDS: Final[tuple[float, ...]]

class Histogram:
    buckets: list[int]
    seconds: float
    def __init__(self) -> None: ...
    def observe(self, seconds: float) -> None: ...
    count: Final[int]
