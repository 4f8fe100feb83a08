"""How commands ask the running broker over HTTP, and how they name partitions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from siltstone.broker.commands.http_client import (
    REMEDY,
    ControlAnswer,
    UnansweredError,
    ask,
    nobody_answers,
)
from siltstone.broker.commands.terminal import CommandFailed
from siltstone.broker.http.control.token import read_address, read_token
from siltstone.config.listeners import parse_host_port
from siltstone.storage.directory.control import ENCRYPTED, find_trust

if TYPE_CHECKING:
    import ssl

    from siltstone.config.layers import Layers

TIMEOUT_SECONDS: Final = 10.0
"""How long a command waits for a sign of a broker."""


class Refusal(CommandFailed):
    """The broker refuses what a command asks for; the text says why."""


class NoAnswer(Refusal):
    """The broker has the request and does not answer: it may do what the command asks for."""


class NobodyAnswers(CommandFailed):
    """No broker runs where the settings say; ``advice`` is for commands that need one."""

    @property
    def advice(self) -> str:
        """The sentence, and how to find a broker."""
        return f"{self}; {REMEDY}"


class StartsOrStops(NobodyAnswers):
    """The broker of the settings runs and listens no more, or not yet."""

    @property
    def advice(self) -> str:
        """The sentence, and to wait."""
        return f"{self}; ask again in a moment, and see its log"


@dataclass(frozen=True, slots=True)
class Which:
    """The partitions that a name means: one partition, all of a topic, or all of the broker."""

    topic: str = ""
    partition: int | None = None

    def as_query(self, more: str = "") -> str:
        """Return the partitions, and more options, as the end of a URL; nothing for no options."""
        from urllib.parse import urlencode  # noqa: PLC0415  # 4 ms

        facts = {"topic": self.topic} if self.topic else {}
        if self.partition is not None:
            facts["partition"] = str(self.partition)
        query = "&".join(filter(None, (urlencode(facts), more)))
        return f"?{query}" if query else ""

    def has(self, topic: str, partition: int) -> bool:
        """Tell whether the name means a partition."""
        return self.topic in {"", topic} and self.partition in {None, partition}


def meant_by(name: str | None) -> list[Which]:
    """Return what TOPIC[-PARTITION] may mean, the likeliest first: topics may end in a number."""
    if not name:
        return [Which()]
    topic, dash, number = name.rpartition("-")
    if dash and topic and number.isascii() and number.isdigit():
        return [Which(topic, int(number)), Which(name)]
    return [Which(name)]


def find_address(layers: Layers) -> tuple[str, int]:
    """Return where the broker of these settings answers HTTP.

    With port 0 it is the address that the running broker noted in the first log directory.

    Raises:
        NobodyAnswers: With port 0 no broker has the directory open.
    """
    address = layers.server().http_address
    if address[1]:
        return address
    directory = Path(layers.server().log_dirs[0])
    noted = _read_note(directory)
    if noted is None:
        raise NobodyAnswers(
            f"no broker has {directory} open, and http.listener {layers.server().http_listener} "
            "names no port"
        )
    return parse_host_port(noted.removeprefix(ENCRYPTED))


def reading_token(layers: Layers) -> str:
    """Return the token that pages may require; an empty text if this user cannot read it."""
    server = layers.server()
    if server.http_security_protocol == "PLAINTEXT" and not server.http_refuses_strangers:
        return ""
    try:
        return read_token(Path(server.log_dirs[0]))
    except OSError:
        return ""


def trust_of(layers: Layers) -> ssl.SSLContext | None:
    """Return what to trust of the HTTP port of these settings; None if the port does not encrypt.

    Raises:
        OSError: The named file of authorities cannot be read.
    """
    server = layers.server()
    if not server.http_security_protocol.endswith("SSL"):
        return None
    return find_trust(Path(server.log_dirs[0]))


def _read_note(directory: Path) -> str | None:
    """Return the address that the broker noted in a log directory that it has open, or None."""
    from siltstone.storage.directory.lock import is_held  # noqa: PLC0415  # few ask

    try:
        return read_address(directory) if is_held(directory) else None
    except OSError:
        return None


def find_why_refused(layers: Layers, asked: tuple[str, int]) -> NobodyAnswers:
    """Return why an HTTP port refuses: a broker that has the log directory open may say more."""
    sentence = nobody_answers(asked)
    directory = Path(layers.server().log_dirs[0])
    noted = _read_note(directory)
    if noted is None:
        return NobodyAnswers(sentence)
    if parse_host_port(noted.removeprefix(ENCRYPTED))[1] == asked[1]:
        return StartsOrStops(
            f"the broker that has {directory} open starts or stops, and does not listen now"
        )
    return NobodyAnswers(f"{sentence}; the broker that has {directory} open listens on {noted}")


class Channel:
    """A way to ask the broker that some settings describe."""

    def __init__(self, layers: Layers) -> None:
        self._layers = layers
        self._directory = Path(layers.server().log_dirs[0])

    def get(self, path: str, which: Which = Which(), more: str = "") -> ControlAnswer:
        """Ask for a page.

        Raises:
            Refusal: It answers with a fault.
            NobodyAnswers: No broker runs.
        """
        return self._ask("GET", path + which.as_query(more), reading_token(self._layers))

    def post(
        self,
        path: str,
        which: Which = Which(),
        more: str = "",
        *,
        body: bytes = b"",
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> ControlAnswer:
        """Ask for something to be done, with the token.

        Raises:
            Refusal: It answers with a fault, or the token cannot be read.
            NobodyAnswers: No broker runs.
        """
        try:
            token = read_token(self._directory)
        except FileNotFoundError:
            token = ""  # no broker ever ran here; if one runs, its answer names the missing token
        except OSError as error:
            raise Refusal(f"the token of the broker cannot be read: {error}") from error
        return self._ask("POST", path + which.as_query(more), token, body, timeout_seconds)

    def _ask(
        self,
        method: str,
        path: str,
        token: str,
        body: bytes = b"",
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> ControlAnswer:
        address = find_address(self._layers)
        try:
            answer = ask(
                address,
                method,
                path,
                token=token,
                body=body,
                timeout_seconds=timeout_seconds,
                trust=trust_of(self._layers),
            )
        except ConnectionRefusedError as error:
            raise find_why_refused(self._layers, address) from error
        except ValueError as error:
            raise Refusal(str(error)) from error
        except UnansweredError as error:
            may_do = "; it may still do what was asked for" if method == "POST" else ""
            raise NoAnswer(f"{address[0]}:{address[1]} {error}{may_do}") from error
        except OSError as error:
            raise Refusal(f"{address[0]}:{address[1]}: {error}") from error
        if answer.status == 401 and method == "POST" and not token:
            raise Refusal(
                f"the broker that answers wants its token, and {self._directory} has none; name "
                "its first log directory by --set log.dirs=…"
            )
        if answer.status >= 400:
            raise Refusal(answer.sentence)
        return answer
