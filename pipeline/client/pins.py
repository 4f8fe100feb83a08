"""The broker's pins, asked for over its control channel: segment files of one moment.

A process that may read the log directory may pin: the token for the channel is a file there. A pin
ends with its lease, so a job's driver renews it in a thread of its own (`Pin`).
"""

import http.client
import json
import logging
import os
import ssl
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from siltstone.pipeline.errors import PipelineError, SnapshotExpired, SourceUnavailable
from siltstone.pipeline.planning.manifest import Manifest
from siltstone.storage import files
from siltstone.storage.directory.checkpoint import MalformedCheckpoint
from siltstone.storage.directory.control import ENCRYPTED, explain, find_trust
from siltstone.storage.directory.meta_properties import MetaProperties
from siltstone.storage.topic_partition import TopicPartition

DEFAULT_LEASE_MS = 60_000
_DEFAULT_ADDRESS = "127.0.0.1:9464"
_ANSWER_SECONDS = 60.0
_RENEWALS_PER_LEASE = 4
_GONE = 410

_logger = logging.getLogger(__name__)


class BrokerRefuses(SourceUnavailable):
    """A broker answers and refuses a request."""


@dataclass(frozen=True, slots=True)
class Control:
    """Where the broker's control channel is, and the token that it asks for."""

    address: tuple[str, int]
    token: str
    trust: ssl.SSLContext | None = None
    """The authorities to trust where the channel encrypts; None: it does not."""

    def ask(self, method: str, path: str, asked: Mapping[str, Any] | None = None) -> Any:
        """Return the answer of a page, which is JSON. Blocks.

        Raises:
            SnapshotExpired: The pin that was named is gone.
            SourceUnavailable: No broker answers, or it refuses (`BrokerRefuses`).
        """
        host, port = self.address
        connection = (
            http.client.HTTPConnection(host, port, timeout=_ANSWER_SECONDS)
            if self.trust is None
            else http.client.HTTPSConnection(
                host, port, timeout=_ANSWER_SECONDS, context=self.trust
            )
        )
        body = None if asked is None else json.dumps(asked)
        try:
            headers = {"Authorization": f"Bearer {self.token}"}
            connection.request(method, path, body, headers)
            with connection.getresponse() as answer:
                text = answer.read()
        except (OSError, http.client.HTTPException) as error:
            why = explain(error) if isinstance(error, OSError) else error
            raise SourceUnavailable(
                f"no broker answers on its http.listener {host}:{port} ({why}); start it, name "
                "another address with the option control, or read its folder as an archive"
            ) from error
        finally:
            connection.close()
        if answer.status == _GONE:
            raise SnapshotExpired(_sentence(text))
        if answer.status >= http.HTTPStatus.BAD_REQUEST:
            raise BrokerRefuses(f"the broker refuses: {_sentence(text)}")
        return json.loads(text)


def find_control(data: Path, address: str = "") -> Control:
    """Return how to reach the broker whose first log directory is ``data``.

    The address is what the broker has noted there, unless one is given. With https:// before it
    the channel encrypts; `storage.directory.control` then says which authorities to trust.

    Raises:
        SourceUnavailable: The folder is missing, or not readable for this user.
    """
    try:
        token = (data / files.CONTROL_TOKEN).read_text(encoding="ascii").strip()
    except OSError as error:
        raise SourceUnavailable(
            f"{data} has no control token that this user may read ({error.strerror}); name the "
            "broker's first log directory with the option data and run as the broker's user, or "
            "read with transport=fetch"
        ) from error
    place = address or _noted(data)
    if not place.startswith(ENCRYPTED):
        return Control(_split(place), token)
    try:
        trust = find_trust(data)
    except OSError as error:
        raise SourceUnavailable(str(error)) from error
    return Control(_split(place.removeprefix(ENCRYPTED)), token, trust)


def is_of(data: Path, cluster_id: str) -> bool:
    """Tell whether a folder of this machine is of a cluster, and this user may pin there."""
    if not os.access(data / files.CONTROL_TOKEN, os.R_OK):
        return False
    try:
        properties = MetaProperties.read(data)
    except (OSError, MalformedCheckpoint):
        return False
    return properties is not None and properties.cluster_id == cluster_id


def topics(control: Control) -> list[str]:
    """Return the names of all topics. Blocks."""
    return sorted(control.ask("GET", "/v1/topics"))


def take_pin(
    control: Control,
    topics: Sequence[str] | None,
    partitions: Sequence[TopicPartition] | None = None,
    *,
    lease_ms: int = DEFAULT_LEASE_MS,
) -> Manifest:
    """Pin topics and single partitions, everything if neither is named. Blocks.

    Raises:
        SourceUnavailable: No broker answers, a limit is reached, or a topic does not exist.
    """
    asked: dict[str, Any] = {"lease_ms": lease_ms, "holder": "pipeline"}
    if topics is not None:
        asked["topics"] = list(topics)
    if partitions is not None:
        asked["partitions"] = [list(each) for each in partitions]
    return Manifest.from_facts(control.ask("POST", "/v1/pins", asked))


def extend_pin(control: Control, pin: str, lease_ms: int | None = None) -> None:
    """Begin the lease of a pin again, with another length if one is given. Blocks.

    Raises:
        SnapshotExpired: The broker no longer knows the pin.
        SourceUnavailable: No broker answers.
    """
    asked: dict[str, Any] = {"id": pin}
    if lease_ms is not None:
        asked["lease_ms"] = lease_ms
    control.ask("POST", "/v1/pins/renew", asked)


def release_pin(control: Control, pin: str) -> None:
    """End a pin. It is no error if it has ended, or its broker. Blocks."""
    try:
        control.ask("POST", "/v1/pins/release", {"id": pin})
    except (SnapshotExpired, SourceUnavailable) as error:
        _logger.debug("pin was not released id=%s error=%s", pin, error)


class Pin:
    """A pin that is renewed until it is closed or left.

    A renewal that fails is tried again until the lease must have ended; ``check`` then raises.
    """

    def __init__(self, control: Control, manifest: Manifest) -> None:
        self.manifest = manifest
        self._control = control
        self._ended = threading.Event()
        self._fault: PipelineError | None = None
        self._thread = threading.Thread(target=self._renew, name="pin heartbeat", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Check that the pin, and so its files, has existed until now.

        Raises:
            SnapshotExpired: The pin ended before its time.
        """
        if self._fault is not None:
            raise SnapshotExpired(f"the pin was lost: {self._fault}") from self._fault

    def leave(self) -> None:
        """Renew the pin no more, and leave it to its readers."""
        self._ended.set()
        join(self._thread)

    def close(self) -> None:
        """Release the pin; idempotent."""
        if not self._ended.is_set():
            self.leave()
            release_pin(self._control, self.manifest.pin)

    def _renew(self) -> None:
        while not self._ended.wait(self.manifest.lease_ms / 1000 / _RENEWALS_PER_LEASE):
            try:
                extend_pin(self._control, self.manifest.pin)
                self._fault = None
            except SnapshotExpired as error:
                self._fault = error
                return
            except PipelineError as error:
                self._fault = error


def join(thread: threading.Thread) -> None:
    """Wait for a thread, unless it is this one, in which Python collects what began the thread."""
    if thread is not threading.current_thread():
        thread.join()


def _noted(data: Path) -> str:
    try:
        return (data / files.CONTROL_ADDRESS).read_text(encoding="ascii").strip()
    except OSError:
        return _DEFAULT_ADDRESS


def _split(address: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit():
        raise SourceUnavailable(
            f"control={address} is neither host:port nor https://host:port; write for example "
            f"control={_DEFAULT_ADDRESS}"
        )
    host = host.removeprefix("[").removesuffix("]")
    return {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host), int(port)  # noqa: S104


def _sentence(text: bytes) -> str:
    return text.decode("utf-8", "replace").strip()
