from typing import Any

class Route:
    through: Any

route: Route

def receive_octets(receiver: int, data: memoryview, start: int, end: int) -> int: ...
def send_octets(sender: int, data: memoryview, size: int, flags: int) -> int: ...
