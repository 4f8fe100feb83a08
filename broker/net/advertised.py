"""The advertised addresses: the broker logs them at the start and tries to connect to them.

If a broker advertises an address that its clients cannot reach, only the clients notice: their
first connection works, and all later ones go to the advertised address.
"""

import asyncio
import logging
import os
from collections.abc import Collection, Mapping

from siltstone.broker.process import sockets
from siltstone.config.listeners import AUTO, show_address

_logger = logging.getLogger(__name__)

TRY_SECONDS = 5.0
_HERE = "clients on this machine"
_LOOPBACK = {"localhost", "127.0.0.1", "::1"}
_ALL_INTERFACES = {"", "0.0.0.0", "::"}  # noqa: S104  # compared, not bound


def who_for(host: str) -> str:
    """Return a phrase that says which clients can use an advertised host."""
    if host == AUTO:
        return "each client as the address that it has reached"
    if host.lower().rstrip(".") in _LOOPBACK:
        return _HERE
    from ipaddress import ip_address  # noqa: PLC0415  # 4 ms, and most starts advertise loopback

    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return f"clients that find {host} by name"
    if address.is_loopback:
        return _HERE
    if address.is_link_local:
        return "clients on the same link"
    return "clients of the same private network" if address.is_private else "clients anywhere"


def is_loopback(host: str) -> bool:
    """Tell whether only clients on the same machine can reach a host."""
    return who_for(host) == _HERE


def announce(advertised: Mapping[str, tuple[str, int]]) -> None:
    """Log each advertised address and which clients can use it."""
    for name, (host, port) in advertised.items():
        _logger.info(
            "advertised listener=%s address=%s for=%r",
            name,
            show_address(host, port),
            who_for(host),
        )


async def try_all(
    advertised: Mapping[str, tuple[str, int]],
    bound: Collection[tuple[str, int]] = (),
    seconds: float = TRY_SECONDS,
) -> dict[str, str]:
    """Call `find_faults`, and log a line for each address that clients cannot reach."""
    faults = await find_faults(advertised, bound, seconds)
    for name, fault in faults.items():
        _logger.warning("advertised address fails clients listener=%s: %s", name, fault)
    return faults


async def find_faults(
    advertised: Mapping[str, tuple[str, int]],
    bound: Collection[tuple[str, int]] = (),
    seconds: float = TRY_SECONDS,
    *,
    connects: bool = True,
) -> dict[str, str]:
    """Resolve every advertised address and connect to it, unless this broker has bound it itself.

    Without ``connects`` addresses are only resolved, since no broker listens yet. The result says
    for each faulty listener which clients fail and why.
    """
    names = [name for name, (host, _) in advertised.items() if host != AUTO]
    told = await asyncio.gather(
        *(_find_fault(advertised[name], bound, seconds, connects=connects) for name in names)
    )
    return {name: fault for name, fault in zip(names, told, strict=True) if fault is not None}


async def _find_fault(
    address: tuple[str, int], bound: Collection[tuple[str, int]], seconds: float, *, connects: bool
) -> str | None:
    """Return which clients fail and why; None if the address works."""
    host, port = address
    if address in bound:
        return None
    where = show_address(host, port)
    try:
        found = await asyncio.wait_for(sockets.look_up(host, port), seconds)
    except (OSError, UnicodeError) as error:
        return _unresolved(host, where, _why(error, seconds))
    if not connects or any(_is_bound(str(each[0]), port, bound) for each in found):
        return None  # no connection, so none counts for max.connections
    try:
        _, writer = await asyncio.wait_for(sockets.connect(host, port), seconds)
    except OSError as error:
        return _unreached(where, _why(error, seconds))
    writer.close()
    return None


def _why(error: OSError | UnicodeError, seconds: float) -> str:
    if isinstance(error, TimeoutError) and not error.args:  # our own time-out, not the kernel's
        return f"no answer within {seconds:g} s"
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)  # asyncio's message repeats the address
    return getattr(error, "strerror", None) or str(error)


def _is_bound(host: str, port: int, bound: Collection[tuple[str, int]]) -> bool:
    return (host, port) in bound or (
        host in _LOOPBACK and any((every, port) in bound for every in _ALL_INTERFACES)
    )


def _unresolved(host: str, where: str, why: str) -> str:
    return (
        f"{host} does not resolve here ({why}); clients that do not find it by name either fail "
        f"after their first connection, when they are told to go to {where}; set "
        "advertised.listeners to a name or an address that they reach"
    )


def _unreached(where: str, why: str) -> str:
    return (
        f"{where} cannot be reached from here ({why}); clients in the same position fail after "
        "their first connection, when they are told to go there; set advertised.listeners to what "
        "they reach, unless the address leads here only from where they are, as a mapped port does"
    )
