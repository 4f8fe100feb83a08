"""``siltstone doctor``: tries what a start needs and the addresses of clients, and says what fails.

If a broker runs, the command connects to each address that the broker advertises now. If none runs,
the addresses are only resolved.
"""

import argparse
import asyncio
import json
import os
import resource
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from siltstone.broker.commands.asking import Channel, NobodyAnswers, Refusal, StartsOrStops
from siltstone.broker.commands.explain_text import size
from siltstone.broker.commands.options import read_settings
from siltstone.broker.commands.terminal import find_width, paint, wrap, write_json
from siltstone.broker.net.advertised import find_faults, is_loopback, who_for
from siltstone.broker.net.binding import why_not_bound
from siltstone.config.layers import Layers
from siltstone.config.listeners import AUTO, parse_host_port, show_address
from siltstone.protocol.errors import visible
from siltstone.storage import files
from siltstone.storage.directory.catalog import Catalog
from siltstone.storage.directory.lock import is_held
from siltstone.storage.directory.log_directory import LogDirError
from siltstone.storage.directory.opening import find_identity_fault, find_ids
from siltstone.storage.directory.roll_call import find_absence

_SCARCE_FILES = 10_000


class Finding(NamedTuple):
    """The result of one check: its subject, whether it works, and a sentence about it."""

    subject: str
    is_fine: bool
    sentence: str


def run_doctor(options: argparse.Namespace) -> int:
    """Print what was found; return 0 if all is fine, 1 if not."""
    findings = list(find_all(read_settings(options)))
    if options.json:
        answer = [each._asdict() for each in findings]
        write_json({"findings": answer})
    else:
        width = find_width()
        for each in findings:
            mark, colour = ("ok   ", "green") if each.is_fine else ("FAULT", "red")
            line = f"{mark} {visible(f'{each.subject}: {each.sentence}')}"
            first, *rest = wrap(line, width, hang=6)
            painted = paint(mark, colour) + first.removeprefix(mark)
            sys.stdout.writelines(f"{line}\n" for line in (painted, *rest))
    return 0 if all(each.is_fine for each in findings) else 1


def find_all(layers: Layers) -> Iterator[Finding]:
    """Try everything, in the order of a start. Blocks."""
    broker, status = _ask_broker(layers)
    served = {} if status is None else status["log_dirs"]
    held = [name for name in layers.server().log_dirs if _is_held(Path(name))]
    if status is None and held:
        why = f"a start is refused, since another process has {', '.join(held)} open"
        broker = broker._replace(is_fine=False, sentence=f"{broker.sentence}; {why}")
    for name in layers.server().log_dirs:
        folder = Path(name).absolute()
        is_served = str(folder) in served
        yield _try_folder(folder, layers.server().log_dirs_reserve_bytes, is_served=is_served)
    yield _try_limits()
    yield broker
    if status is None:
        yield from _read_folders(layers)
        yield from _try_ports(layers)
    yield from _try_advertised(layers, status)


def _ask_broker(layers: Layers) -> tuple[Finding, dict[str, Any] | None]:
    """Return the finding about the broker, and the status that it reports if it runs."""
    try:
        status = json.loads(Channel(layers).get("/v1/status").body)
    except StartsOrStops as error:
        return Finding("broker", is_fine=False, sentence=str(error)), None
    except NobodyAnswers as error:
        return Finding("broker", is_fine=True, sentence=f"does not run: {error}"), None
    except (Refusal, ValueError) as error:
        return Finding("broker", is_fine=False, sentence=str(error)), None
    return _judge_broker(status), status


def _try_folder(folder: Path, reserve_bytes: int, *, is_served: bool) -> Finding:
    """Try a folder as a start would; one that a running broker serves may be another user's."""
    subject = f"log directory {folder}"
    try:
        there = _nearest(folder)
        free, total = files.find_room(there)
    except OSError as error:
        sentence = _WITHOUT_LOOKING if is_served else f"cannot be looked at: {error}"
        return Finding(subject, is_fine=is_served, sentence=sentence)
    fault = _why_not_made(folder, there)
    if fault is None and not (is_served or os.access(there, os.R_OK | os.W_OK | os.X_OK)):
        fault = why_not_written(there, owner=there.stat().st_uid, user=os.geteuid())
    room = f"{size(free)} of {size(total)} are free"
    if fault is None and free < reserve_bytes:
        fault = (
            f"{room}, less than log.dirs.reserve.bytes={reserve_bytes}: produce requests are "
            "refused; delete topics or records, shorten retention, or make room on the disk"
        )
    if fault is not None:
        return Finding(subject, is_fine=False, sentence=fault)
    if there != folder:
        return Finding(subject, is_fine=True, sentence=f"is made by the start; {room}")
    has_it = "a broker has it open; " if is_served or _is_held(folder) else ""
    return Finding(subject, is_fine=True, sentence=has_it + room)


_WITHOUT_LOOKING = "a broker has it open; this user may not look at it, and need not"


def why_not_written(folder: Path, *, owner: int, user: int) -> str:
    """Return what to do about a folder that no broker serves and this user may not write.

    If its owner is not root, it may belong to a daemon, which must keep its access.
    """
    if owner in {0, user}:
        what = f"chown {user} {folder}"
    else:
        what = f"run this, and the broker, as user {owner}, whose it is"
    return f"user {user} may not write {folder}; {what}, or choose another log.dirs"


def _why_not_made(folder: Path, there: Path) -> str | None:
    """Return why a start could not use or create a folder; None if nothing seems to prevent it."""
    if not there.is_dir():
        return f"{there} is not a folder; choose another log.dirs"
    if there not in (folder, folder.parent):
        return f"does not exist, nor does {folder.parent}; create that, or choose another log.dirs"
    return None


def _nearest(folder: Path) -> Path:
    """Return the folder, or the nearest parent of it that exists."""
    return next(each for each in (folder, *folder.parents) if each.exists())


def _is_held(folder: Path) -> bool:
    try:
        return is_held(folder)
    except OSError:
        return False


def _read_folders(layers: Layers) -> Iterator[Finding]:
    """Yield the faults for which a start refuses files of log directories that can be read."""
    server = layers.server()
    folders = [Path(name).absolute() for name in server.log_dirs]
    readable = [each for each in folders if each.is_dir() and os.access(each, os.R_OK | os.X_OK)]
    told = find_identity_fault(readable, server.node_id, server.cluster_id)
    for line in [] if told is None else told.splitlines():
        yield Finding("log directories", is_fine=False, sentence=line)
    if not readable:
        return
    catalog = Catalog(readable)
    absent = None
    try:
        catalog.load()
        if told is None:
            absent = find_absence(find_ids(readable), catalog.state, is_found=catalog.found)
    except LogDirError as error:
        yield Finding("catalogue", is_fine=False, sentence=str(error))
    if absent is not None:
        yield Finding("log directories", is_fine=False, sentence=absent)


def _try_limits() -> Finding:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < _SCARCE_FILES:
        return Finding(
            "open files",
            is_fine=False,
            sentence=f"only {hard} are allowed, and each partition and each client needs one; "
            "raise the hard limit (ulimit -Hn, or LimitNOFILE= of the service)",
        )
    many = "as many as wanted" if hard == resource.RLIM_INFINITY else f"{hard}"
    return Finding("open files", is_fine=True, sentence=f"{many} are allowed")


def _judge_broker(status: dict[str, Any]) -> Finding:
    troubles = [f"{path} {word}" for path, word in status["log_dirs"].items() if word != "online"]
    if troubles or not status["ready"]:
        why = "; ".join(troubles) or "siltstone health says why"
        return Finding("broker", is_fine=False, sentence=f"runs and is not ready: {why}")
    return Finding(
        "broker",
        is_fine=True,
        sentence=f"runs and is ready, version {status['version']}, cluster {status['cluster_id']}",
    )


def _try_ports(layers: Layers) -> Iterator[Finding]:
    """Bind each address as a start would, and release it."""
    server = layers.server()
    wanted = [(f"listener {each.name}", each.host, each.port) for each in server.bound_listeners]
    taken: dict[tuple[str, int], str] = {}
    for subject, host, port in (*wanted, ("http.listener", *server.http_address)):
        where = show_address(host or "*", port)
        other = taken.setdefault((host, port), subject)
        if port and other != subject:
            sentence = f"{where} is that of {other}, too; choose another"
            yield Finding(subject, is_fine=False, sentence=sentence)
            continue
        try:
            _bind(host, port)
        except OSError as error:
            sentence = f"cannot use {where}: {why_not_bound(error)}"
            yield Finding(subject, is_fine=False, sentence=sentence)
        else:
            yield Finding(subject, is_fine=True, sentence=f"{where} can be bound")


def _bind(host: str, port: int) -> None:
    """Bind an address and release it."""
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    for family, address in dict.fromkeys((entry[0], entry[4]) for entry in found):
        with socket.socket(family, socket.SOCK_STREAM) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.bind(address)


def _try_advertised(layers: Layers, status: dict[str, Any] | None) -> Iterator[Finding]:
    if status is None:
        advertised = {each.name: (each.host, each.port) for each in layers.server().advertised}
    else:
        advertised = {
            name: parse_host_port(address) for name, address in status["advertised"].items()
        }
    faults = asyncio.run(find_faults(advertised, connects=status is not None))
    bound = {each.name: each.host for each in layers.server().bound_listeners}
    for name, (host, port) in advertised.items():
        subject = f"advertised {name} {show_address(host, port)}"
        if name in faults:
            yield Finding(subject, is_fine=False, sentence=faults[name])
            continue
        tried = "" if status is None or host == AUTO else "; reached from here"
        remark = _remark(host, bound.get(name))
        yield Finding(subject, is_fine=True, sentence=f"for {who_for(host)}{tried}{remark}")


def _remark(host: str, bound: str | None) -> str:
    """Return a remark if a listener and its advertised address reach different clients."""
    if bound is None or host == AUTO or is_loopback(host) == is_loopback(bound):
        return ""
    if is_loopback(host):
        return "; those of other machines come in and fail then, unless a mapped port leads here"
    return f"; but the listener is on {bound} alone, so only a proxy brings them here"
