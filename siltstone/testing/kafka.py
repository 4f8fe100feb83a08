"""A running broker as a test sees it: its address, its topics, its clock, and its faults."""

from __future__ import annotations

import itertools
import json
import re
import time
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from siltstone.testing.daemon import NOT_RUNNING, Daemon
from siltstone.testing.errors import AskedInVain

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from os import PathLike

    from siltstone.testing.admin import Admin

__tracebackhide__ = True
NO_QUERY: Final[Mapping[str, str]] = MappingProxyType({})
_PASS_SECONDS: Final = 30.0
_LOOK_SECONDS: Final = 0.01
_LONGEST_NAME: Final = 200
_NOTHING_TO_DO: Final = "there is nothing to clean"


class KafkaClock:
    """The broker's clock. Only this clock moves: clients stamp records by their own clocks."""

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self.ahead = timedelta()

    def advance(
        self,
        by: timedelta = timedelta(),
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        milliseconds: float = 0,
    ) -> None:
        """Let time pass for the broker; work that becomes due is done when this returns.

        Such work is retention, expiry of offsets, producers and transactional ids, and time-outs of
        sessions, rebalances and transactions. Compactions only begin; see `Kafka.compact`.
        """
        by += timedelta(
            days=days, hours=hours, minutes=minutes, seconds=seconds, milliseconds=milliseconds
        )
        milliseconds = by // timedelta(milliseconds=1)
        self._kafka.ask("/v1/trial/clock", {"advance_ms": str(milliseconds)})
        self.ahead += by

    def now_ms(self) -> int:
        """Return the broker's time, in ms since the epoch."""
        now_ms: int = self._kafka.ask("/v1/trial/clock")["now_ms"]
        return now_ms


class Kafka:
    """A broker in a process of its own. Every method returns when its work is done.

    ``bootstrap_servers`` is the address for clients; it stays the same after `kill` and `restart`.
    """

    def __init__(self, daemon: Daemon) -> None:
        self.clock = KafkaClock(self)
        self._daemon = daemon
        self._numbers = itertools.count(1)
        self._is_troubled = False
        self._admin: Admin | None = None

    @property
    def bootstrap_servers(self) -> str:
        """The broker's address, as ``127.0.0.1:41234``."""
        address: str = self._daemon.facts["bootstrap_servers"]
        return address

    @property
    def listeners(self) -> dict[str, str]:
        """The address of each listener by its name, for settings with several listeners."""
        return {each["name"]: each["advertised"] for each in self._daemon.facts["listeners"]}

    @property
    def http(self) -> str:
        """The URL of its pages ``/metrics``, ``/readyz`` and others: ``http://127.0.0.1:41235``."""
        return f"http://{self._daemon.facts['http']}"

    @property
    def folder(self) -> Path:
        """The folder of its data and log lines, which is removed with the broker."""
        return self._daemon.folder

    @property
    def log(self) -> str:
        """The lines that the broker has logged."""
        return "".join(f"{line}\n" for line in self._daemon.lines_behind(0))

    @property
    def log_size(self) -> int:
        """How many bytes the broker has logged so far, for `log_behind`."""
        return self._daemon.log_size()

    def log_behind(self, size: int) -> list[str]:
        """Return the lines that were logged after the log had a size, as `log_size` returns it."""
        return self._daemon.lines_behind(size)

    @property
    def pid(self) -> int:
        """The process id of the broker."""
        return int(self._daemon.facts["pid"])

    # Topics and groups

    def create_topic(
        self,
        name: str | None = None,
        *,
        partitions: int = 1,
        config: Mapping[str, object] | None = None,
    ) -> str:
        """Create a topic, with a new unique name unless one is given, and return the name.

        Raises:
            Refused: The topic exists, or cannot be created.
        """
        made = name if name is not None else self.unique_name("topic")
        texts = {key: _text(value) for key, value in (config or {}).items()}
        self.admin.create_topic(made, partitions, texts)
        return made

    def delete_topic(self, *names: str) -> None:
        """Delete topics."""
        self.admin.delete_topics(names)

    def topics(self) -> list[str]:
        """Return the names of the topics, without the broker's own."""
        return sorted(self.admin.list_all()[0])

    def groups(self) -> list[str]:
        """Return the ids of the consumer groups."""
        return sorted(self.admin.list_all()[1])

    def clear(self) -> None:
        """Delete all topics, and all groups without members."""
        self.clear_but(set(), set())

    def clear_but(self, kept_topics: set[str], kept_groups: set[str]) -> None:
        """Delete all topics and groups except the kept ones; groups with members stay too."""
        topics, groups = self.admin.list_all()
        self.admin.delete_groups(groups - kept_groups)
        self.admin.delete_topics(topics - kept_topics)

    @contextmanager
    def restored(self) -> Iterator[None]:
        """After the block, put the broker back into its present state.

        Faults are ended as by `heal`. New topics and groups are deleted, except groups with
        members. Settings, ACLs, users and quotas are restored. Transactions that have begun are
        aborted.
        """
        if not self._daemon.is_running:
            self.heal()
        topics, groups = self.admin.list_all()
        state = self.ask("/v1/trial/state")
        try:
            yield
        finally:
            self.heal()
            self.ask("/v1/trial/restore", body=json.dumps(state).encode())
            self.clear_but(topics, groups)

    def compact(self, topic: str) -> None:
        """Roll the segments of a topic and compact them, as ``siltstone clean --roll`` does.

        Raises:
            AskedInVain: The topic is not compacted, or a pass failed.
        """
        asked = self.ask("/v1/clean", {"topic": topic, "roll": "1"}, nothing=_NOTHING_TO_DO)
        waiting = {(each["topic"], each["partition"]) for each in asked.get("requested", ())}
        deadline = time.monotonic() + _PASS_SECONDS
        while waiting:
            for event in self._passes(topic, asked["now_ms"]):
                if event["outcome"] == "failed":
                    raise AskedInVain(f"{topic} is not compacted: {event.get('reason')}")
                waiting.discard((event["topic"], event["partition"]))
            if waiting and time.monotonic() > deadline:
                raise AskedInVain(f"{topic} is not compacted after {_PASS_SECONDS:g} s")
            time.sleep(_LOOK_SECONDS)

    def unique_name(self, words: str) -> str:
        """Return a topic name that is made of words and not used yet."""
        legal = re.sub(r"[^a-zA-Z0-9-]+", "-", words).strip("-")[:_LONGEST_NAME]
        return f"{legal or 'topic'}-{next(self._numbers)}"

    # Faults

    def pause(self) -> None:
        """Pause the process: connections stay open without answers until `resume`."""
        self._is_troubled = True
        self._daemon.pause()

    def resume(self) -> None:
        """Let a paused broker go on."""
        self._daemon.resume()

    def kill(self) -> None:
        """End the process by SIGKILL. `restart` starts it on the same folder and ports."""
        self._is_troubled = True
        self.disconnect()
        self._daemon.kill()

    def restart(self) -> None:
        """Start the broker again with the same folder and ports; stop it first if it runs.

        Its clock goes on from the time to which it was moved; requested faults have ended.

        Raises:
            StartFailed: The broker does not start.
        """
        self.disconnect()
        self._daemon.stop()
        self._daemon.launch()
        self._daemon.wait()
        if self.clock.ahead:
            milliseconds = self.clock.ahead // timedelta(milliseconds=1)
            self.ask("/v1/trial/clock", {"advance_ms": str(milliseconds)})

    def fail_next(self, api: str, *, error: str, times: int = 1, topic: str | None = None) -> None:
        """Make the next requests of an API fail, such as Produce with NOT_LEADER_OR_FOLLOWER.

        ``error`` is Kafka's name for the error; with DISCONNECT the connection closes instead. With
        ``topic`` only requests that name the topic fail.

        Raises:
            AskedInVain: There is no such API or error.
        """
        self._is_troubled = True
        asked = {"api": api, "error": error, "times": str(times)}
        self.ask("/v1/trial/fail", asked if topic is None else {**asked, "topic": topic})

    def slow(self, what: str, seconds: float) -> None:
        """Make the disk slow to append, read or commit, or delay all requests of an API.

        Other requests are served meanwhile. 0 seconds ends the delay.

        Raises:
            AskedInVain: There is no such operation or API.
        """
        self._is_troubled = True
        self.ask("/v1/trial/slow", {"what": what, "seconds": str(seconds)})

    def heal(self) -> None:
        """End all faults: the broker runs, nothing fails or is slow, the clock shows the time."""
        if self._daemon.is_running and not (self._is_troubled or self.clock.ahead):
            return
        self.clock.ahead = timedelta()
        if not self._daemon.is_running:
            self.restart()
        self.resume()
        self.ask("/v1/trial/reset")
        self._is_troubled = False

    # Requests to the broker

    @property
    def admin(self) -> Admin:
        """Requests over Kafka's protocol; their module is imported here, since a start needs none.

        Raises:
            AskedInVain: The broker is paused and would not answer, or every listener needs a login.
        """
        self._refuse_if_paused()
        if self._admin is None:
            from siltstone.testing.admin import Admin  # noqa: PLC0415

            plain = (
                each["advertised"]
                for each in self._daemon.facts["listeners"]
                if each["security_protocol"] == "PLAINTEXT"
            )
            address = next(plain, None)
            if address is None:
                raise AskedInVain(
                    "topics and groups are asked for over a listener without login and "
                    "encryption, which the broker lacks; add PLAINTEXT://127.0.0.1:0 to listeners"
                )
            host, _, port = address.rpartition(":")
            self._admin = Admin((host, int(port)))
        return self._admin

    def ask(
        self,
        page: str,
        query: Mapping[str, str] = NO_QUERY,
        *,
        body: bytes = b"",
        nothing: str = "\0",
    ) -> Any:
        """Send a request to the broker's control channel, and return the answer.

        Raises:
            AskedInVain: The broker refuses. A refusal that begins with ``nothing`` returns {}
                instead.
        """
        from urllib.parse import urlencode  # noqa: PLC0415

        from siltstone.broker.commands.http_client import ask  # noqa: PLC0415
        from siltstone.broker.http.control.token import read_token  # noqa: PLC0415

        if not self._daemon.is_running:
            raise AskedInVain(NOT_RUNNING)
        self._refuse_if_paused()
        host, _, port = self._daemon.facts["http"].rpartition(":")
        token = read_token(Path(self._daemon.facts["log_dirs"][0]))
        path = f"{page}?{urlencode(query)}" if query else page
        answer = ask((host, int(port)), "POST", path, token=token, body=body)
        if answer.status >= 400:
            if answer.sentence.startswith(nothing):
                return {}
            raise AskedInVain(answer.sentence)
        return json.loads(answer.body)

    def _refuse_if_paused(self) -> None:
        if self._daemon.is_running and self._daemon.is_paused:
            raise AskedInVain("the broker is paused and does not answer; resume() lets it go on")

    def _passes(self, topic: str, since_ms: int) -> Iterator[dict[str, Any]]:
        from siltstone.broker.commands.http_client import ask  # noqa: PLC0415

        host, _, port = self._daemon.facts["http"].rpartition(":")
        path = f"/v1/cleaner-history?topic={topic}&since_ms={since_ms}"
        lines = ask((host, int(port)), "GET", path).body.splitlines()
        yield from (event for line in lines if "outcome" in (event := json.loads(line)))

    def disconnect(self) -> None:
        """Close the connection for requests; the next request opens another."""
        if self._admin is not None:
            self._admin.close()


@contextmanager
def broker(
    settings: Mapping[str, object] | None = None,
    *,
    folder: str | PathLike[str] | None = None,
) -> Iterator[Kafka]:
    """Run a broker during a block.

    ``settings`` are Kafka's, by their dotted names. Without a ``folder`` the data is in memory if
    there is room, and is removed with the broker.

    Raises:
        StartFailed: There is no port or folder for the broker, or it does not start.
    """
    texts = {name: _text(value) for name, value in (settings or {}).items()}
    daemon = Daemon(texts, None if folder is None else Path(folder))
    try:
        daemon.launch()
        with suppress(ImportError):
            import siltstone.testing.admin  # noqa: F401, PLC0415  # while the broker starts
        daemon.wait()
        running = Kafka(daemon)
        try:
            yield running
        finally:
            running.disconnect()
    finally:
        daemon.close()


def _text(value: object) -> str:
    """Return a setting's value as Kafka writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
