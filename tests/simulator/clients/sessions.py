"""Consumers with fetch sessions (KIP-227): an incremental answer names all that has news.

Each of some slots has one session at a time. A slot may abandon its session for a new one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tests.simulator.clients.requests import FETCH, share
from tests.simulator.model.log import Wrong, read_batches
from tests.simulator.model.topics import Presence

if TYPE_CHECKING:
    from random import Random

    from tests.simulator.clients.records import Records
    from tests.simulator.history import Action, History
    from tests.simulator.model.log import LogModel
    from tests.simulator.model.topics import TopicModel
    from tests.simulator.wire import Client

    Place = tuple[Any, int]
    """A topic by name or by id, and a partition."""

_OUT_OF_RANGE, _UNKNOWN_TOPIC, _STORAGE, _UNKNOWN_ID = 1, 3, 56, 100
_NOT_FOUND, _BAD_EPOCH, _MIXED = 70, 71, 106
_FIRST_BY_ID: Final = 13
_FINAL, _INITIAL = -1, 0
_EVICTION_MS: Final = 120_000
ALL_BYTES: Final = 2_000_000
_ENOUGH: Final = 190_000
"""So many bytes of a partition have room for any batch; with less, only one partition must come."""
_SLOTS: Final = 3


class Wanted:
    """A partition of a session: from where it is read, by the broker and by the client.

    ``told`` is the end and the start of the log in the last answer that named it, None if the next
    answer must name it.
    """

    def __init__(self, offset: int, size: int) -> None:
        self.offset = self.next = offset
        self.size = size
        self.told: tuple[int, int] | None = None


class Session:
    """A session as its client knows it.

    ``may_be_gone`` tells that another session may have got its room.
    """

    def __init__(self, version: int, now_ms: int) -> None:
        self.version = version
        self.id = 0
        self.epoch = _INITIAL
        self.wanted: dict[Place, Wanted] = {}
        self.created_ms = self.used_ms = now_ms
        self.may_be_gone = False

    @property
    def is_by_id(self) -> bool:
        """Tell whether it names topics by their ids."""
        return self.version >= _FIRST_BY_ID

    def may_be_evicted(self, now_ms: int) -> bool:
        """Tell whether a new session may take its room."""
        is_idle = now_ms - self.used_ms >= _EVICTION_MS
        return self.may_be_gone or is_idle or self.used_ms - self.created_ms >= _EVICTION_MS


class Slot:
    """A client and its session, if it has one."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.session: Session | None = None
        self.is_busy = False


class View:
    """A partition as a request is sent: what its answer must tell."""

    def __init__(
        self, topic: TopicModel | None, place: Place, wanted: Wanted, *, is_by_id: bool
    ) -> None:
        self.topic = topic
        self.partition = place[1]
        self.life = None if topic is None else topic.topic_id
        self.was = Presence.ABSENT if topic is None else topic.presence
        is_old = topic is None or (is_by_id and place[0] != topic.topic_id)
        self.is_old = is_old
        self.log: LogModel | None = None
        self.end = 0
        if topic is not None and not is_old and self.partition < len(topic.logs):
            self.log = topic.logs[self.partition]
            self.end = self.log.end
        self._had_data = self.log is not None and self.log.find(wanted.offset) is not None

    @property
    def has_data(self) -> bool:
        """Tell whether there is something to read, and was so all the while."""
        return self.is_alive and self._had_data

    @property
    def is_alive(self) -> bool:
        """Tell whether the topic has existed all the while."""
        topic = self.topic
        return (
            topic is not None
            and self.log is not None
            and self.was is topic.presence is Presence.PRESENT
            and self.life == topic.topic_id
        )

    @property
    def is_dead(self) -> bool:
        """Tell whether the topic has not existed all the while."""
        topic = self.topic
        if self.is_old:
            return True
        return topic is not None and self.was is topic.presence is Presence.ABSENT


class Sessions:
    """The clients of a history that fetch in sessions."""

    WEIGHTS: Final = {"open_session": 1.5, "poll_session": 6, "misuse_session": 0.5}

    @staticmethod
    def draw(rng: Random) -> dict[str, Any]:
        """Return how many sessions the broker keeps; some histories have none."""
        return rng.choice(({}, {"room": 1}, {"room": 2}, {"room": 1000}))

    @staticmethod
    def settings_of(drawn: dict[str, Any]) -> list[str]:
        """Return the broker's setting that a history has because of its sessions."""
        if not drawn:
            return []
        return [f"max.incremental.fetch.session.cache.slots={drawn['room']}"]

    @staticmethod
    def draw_step(kind: str, rng: Random) -> list[Any]:
        """Return which slot, and what else a step needs."""
        step: list[Any] = [rng.randrange(_SLOTS)]
        if kind == "open_session":
            chosen = [share(rng) for _ in range(rng.choice((1, 2, 4)))]
            return [*step, rng.choice((7, 11, 12, 13, 17, 18)), chosen, rng.random() < 0.3]
        if kind == "poll_session":
            return [
                *step,
                rng.choice((None, None, share(rng))),
                rng.choice((None, None, None, share(rng))),
                rng.choice((0, 0, 500, 5000)),
                rng.choice((ALL_BYTES, ALL_BYTES, 1, 1000)),
                rng.random() < 0.2,
            ]
        return [*step, rng.choice(("epoch", "id", "kind", "close"))]

    def __init__(self, history: History, drawn: dict[str, Any]) -> None:
        self._history = history
        self._room = drawn.get("room", 0)
        self._slots = [Slot(history.client()) for _ in range(_SLOTS)]
        self._live: list[Session] = []
        self._ended: list[Session] = []
        self._opening = 0

    @property
    def _records(self) -> Records:
        records: Records = self._history.parts["records"]
        return records

    def play(self, kind: str, number: int, *rest: Any) -> Action:
        """Play a step."""
        slot = self._slots[number]
        session = slot.session
        if slot.is_busy:
            return
        slot.is_busy = True
        if kind == "open_session":
            yield from self._open(slot, *rest)
        elif session is None:
            yield from self._open(slot, 13 - number % 2, [0.1, 0.6], is_abandoned=False)
        elif kind == "poll_session":
            yield from self._poll(slot, session, *rest)
        else:
            yield from self._misuse(slot, session, *rest)
        slot.is_busy = False

    def restarted(self, way: str) -> None:
        """Note that no session outlives its broker: each poll must be told so."""
        for slot in self._slots:
            slot.is_busy = False
        self._live.clear()
        self._ended.clear()
        self._opening = 0

    def judge(self) -> None:
        """Poll all sessions."""
        for slot in self._slots:
            if slot.session is not None and self._history.is_sound:
                self._history.run([self._poll(slot, slot.session, None, None, 0, ALL_BYTES)])

    # Requests.

    def _places(self, session: Session) -> list[tuple[Place, TopicModel]]:
        """Return all partitions that a session may have, by their present names."""
        return [
            ((topic.topic_id if session.is_by_id else topic.name, place), topic)
            for topic in self._records.topics.values()
            if topic.presence is Presence.PRESENT
            for place in range(topic.partitions)
        ]

    def _want(self, session: Session, share: float) -> Place | None:
        """Add a partition to a session; return it if it is new."""
        places = self._places(session)
        if not places:
            return None
        place, topic = places[int(share * len(places))]
        if place in session.wanted:
            return None
        log = topic.logs[place[1]]
        offset = log.start + int(share * 7919 % 1 * (log.end - log.start + 1))
        session.wanted[place] = Wanted(offset, (1, _ENOUGH, _ENOUGH)[int(share * 1000) % 3])
        return place

    def _row(self, session: Session, named: list[Place], **more: Any) -> dict[str, Any]:
        rows = []
        for key, place in named:
            wanted = session.wanted[key, place]
            wanted.offset = wanted.next
            part = {"fetch_offset": wanted.offset, "partition_max_bytes": wanted.size}
            rows.append((*_name(session, key), [{"partition": place, **part}]))
        of_session = {"session_id": session.id, "session_epoch": session.epoch}
        return {"min_bytes": 1, **of_session, "topics": rows, **more}

    def _view(self, session: Session) -> dict[Place, View]:
        topics = self._records.topics
        by_id = {topic.topic_id: topic for topic in topics.values()}
        by_id |= {old: topic for topic in topics.values() for old in topic.old_ids}
        find = by_id.get if session.is_by_id else topics.get
        return {
            place: View(find(place[0]), place, wanted, is_by_id=session.is_by_id)
            for place, wanted in session.wanted.items()
        }

    def _open(self, slot: Slot, version: int, chosen: list[float], is_abandoned: bool) -> Action:
        """Begin a session; the last one of the slot ends, unless it is abandoned."""
        before, slot.session = slot.session, None
        now_ms = self._history.now_ms
        session = Session(version, now_ms)
        for each in chosen:
            self._want(session, each)
        if not session.wanted:
            return
        row = self._row(session, list(session.wanted))
        if before is not None and not is_abandoned:
            row["session_id"] = before.id
            before.may_be_gone = True
        view = self._view(session)
        ended = len(self._ended)
        self._opening += 1
        asked = slot.client.send(FETCH, row, version)
        yield asked
        if asked.is_lost:
            return
        self._opening -= 1
        answer = asked.answer
        if before is not None and not is_abandoned:
            self._end(before)
        if answer.error_code:
            raise Wrong(f"a full fetch: error {answer.error_code}")
        self._history.tell(f"  session {answer.session_id} of {len(session.wanted)}")
        meanwhile = [each for each in self._ended[ended:] if each is not before]
        self._begun(session, answer.session_id, len(meanwhile))
        self._judge(session, view, answer, is_all=True, is_full=True)
        if answer.session_id:
            session.id, session.epoch = answer.session_id, 1
            slot.session = session

    def _end(self, session: Session) -> None:
        if session in self._live:
            self._live.remove(session)
            self._ended.append(session)

    def _begun(self, session: Session, session_id: int, ended: int) -> None:
        """Note that a new session has got room, or has not.

        So many others have ``ended`` since it was asked for.
        """
        now_ms = self._history.now_ms
        others = [each for each in self._live if not each.may_be_gone]
        is_full = len(others) >= self._room
        if not session_id:
            if len(self._live) + self._opening + ended < self._room:
                raise Wrong("a fetch got no session, although there is room")
            return
        if any(each.id == session_id for each in self._live):
            raise Wrong(f"session {session_id} was given away twice")
        if len(self._live) >= self._room:
            old = [each for each in self._live if each.may_be_evicted(now_ms)]
            if is_full and not old:
                raise Wrong("a fetch got a session, although there is no room")
            for each in old:
                each.may_be_gone = True
        self._live.append(session)

    def _poll(  # a step's parameters
        self,
        slot: Slot,
        session: Session,
        add: float | None,
        forget: float | None,
        wait_ms: int,
        size: int,
        is_lazy: bool = False,
    ) -> Action:
        """Fetch what has news; name what is new, forgotten, or read on from elsewhere."""
        named = [] if add is None else [self._want(session, add)]
        if not is_lazy:
            named += [
                place
                for place, wanted in session.wanted.items()
                if wanted.next != wanted.offset and place not in named
            ]
        forgotten = []
        if forget is not None and session.wanted:
            place = list(session.wanted)[int(forget * len(session.wanted))]
            del session.wanted[place]
            forgotten = [(*_name(session, place[0]), [place[1]])]
        row = self._row(
            session,
            [each for each in named if each is not None and each in session.wanted],
            forgotten_topics_data=forgotten,
            max_wait_ms=wait_ms,
            max_bytes=size,
        )
        session.may_be_gone |= not session.wanted
        view = self._view(session)
        now_ms = session.used_ms = self._history.now_ms
        is_ready = any(each.has_data for each in view.values())
        asked = slot.client.send(FETCH, row, session.version)
        yield asked
        if asked.is_lost:
            slot.session = None if asked.is_cut else session  # the broker may have advanced it
            return
        answer = asked.answer
        took_ms = self._history.now_ms - now_ms
        self._history.tell(
            f"  session {session.id} {session.epoch}: error {answer.error_code} after {took_ms} ms"
        )
        if self._is_refused(slot, session, answer.error_code, _NOT_FOUND):
            return
        session.epoch += 1
        if answer.session_id != (session.id if session.wanted else 0):
            raise Wrong(f"session {session.id} is answered as {answer.session_id}")
        if not session.wanted:
            self._end(session)
            slot.session = None
        self._judge(session, view, answer, is_all=size == ALL_BYTES, is_full=False)
        alive = all(each.is_alive for each in view.values())
        if self._history.is_sound and wait_ms and alive:
            if is_ready and took_ms >= wait_ms:
                raise Wrong(f"session {session.id} waited {took_ms} ms, although there was data")
            if view and not answer.responses and took_ms < wait_ms:
                raise Wrong(f"session {session.id} waited {took_ms} of {wait_ms} ms for nothing")

    def _is_refused(self, slot: Slot, session: Session, code: int, expected: int) -> bool:
        """Judge an error of a whole answer; tell whether there is one."""
        is_live = session in self._live
        if code == 0 and is_live:
            return False
        if code != expected or (is_live and not session.may_be_gone):
            raise Wrong(f"session {session.id} in epoch {session.epoch}: error {code}")
        self._end(session)
        slot.session = None
        return True

    def _misuse(self, slot: Slot, session: Session, how: str) -> Action:
        """Send a wrong epoch or id, mix names and ids, or end the session."""
        row, version = self._row(session, []), session.version
        expected = _NOT_FOUND
        is_live = session in self._live
        if how == "epoch":
            row["session_epoch"] += 1
            expected = _BAD_EPOCH if is_live else _NOT_FOUND
        elif how == "id":
            row["session_id"] ^= 1
        elif how == "kind":
            version = 12 if session.is_by_id else 13
            expected = _MIXED if is_live else _NOT_FOUND
        else:
            row["session_epoch"], expected = _FINAL, 0
            session.may_be_gone = True
            slot.session = None
        asked = slot.client.send(FETCH, row, version)
        yield asked
        if asked.is_lost:
            return
        if how == "close":
            self._end(session)
        code = asked.answer.error_code
        if code != expected and not (code == _NOT_FOUND and session.may_be_gone):
            raise Wrong(f"session {session.id} with a wrong {how}: error {code}, not {expected}")
        if asked.answer.responses:
            raise Wrong(f"session {session.id} with a wrong {how} is answered with partitions")

    # What answers must have.

    def _judge(
        self, session: Session, view: dict[Place, View], answer: Any, *, is_all: bool, is_full: bool
    ) -> None:
        """Compare an answer with what the session must be told.

        ``is_all`` tells that there is room for all data; ``is_full`` that all must be named.
        """
        rows = {
            (topic.topic_id if session.is_by_id else topic.topic, row.partition_index): row
            for topic in answer.responses
            for row in topic.partitions
        }
        for place, seen in view.items():
            what = f"session {session.id} {place}"
            wanted, row = session.wanted[place], rows.pop(place, None)
            if row is None:
                self._judge_unnamed(what, wanted, seen, is_all=is_all, is_full=is_full)
            elif row.error_code:
                self._judge_error(what, wanted, seen, row.error_code)
            else:
                self._judge_named(what, wanted, seen, row, is_all=is_all, is_full=is_full)
        if rows:
            raise Wrong(f"session {session.id} does not have {sorted(rows)}, which are named")
        if not is_all and not any(
            row.records or row.error_code for topic in answer.responses for row in topic.partitions
        ):
            for place, seen in view.items():
                if seen.has_data:
                    raise Wrong(f"session {session.id} gets no data at all, not of {place}")

    def _judge_unnamed(
        self, what: str, wanted: Wanted, seen: View, *, is_all: bool, is_full: bool
    ) -> None:
        if is_full or wanted.told is None:
            raise Wrong(f"{what} is not named")
        if seen.is_dead:
            raise Wrong(f"{what} is not named, although its topic is gone")
        if is_all and wanted.size >= _ENOUGH and seen.has_data:
            raise Wrong(f"{what} is not named, although there is data at {wanted.offset}")
        if seen.is_alive and wanted.told[0] < seen.end:
            raise Wrong(f"{what} is not named, although its end is {seen.end}")

    def _judge_error(self, what: str, wanted: Wanted, seen: View, code: int) -> None:
        wanted.told = None
        log = seen.log
        is_unknown = code in {_UNKNOWN_TOPIC, _UNKNOWN_ID}
        name = "" if seen.topic is None else seen.topic.name
        if code == _STORAGE and not self._history.works(name, seen.partition):
            return
        if code == _OUT_OF_RANGE:
            if log is not None:
                wanted.next = log.start
            if log is None or not seen.is_alive or wanted.offset > log.end:
                return
            if wanted.offset < max(log.start, log.may_start):
                return
        if not is_unknown or seen.is_alive:
            raise Wrong(f"{what} from {wanted.offset}: error {code}")

    def _judge_named(
        self, what: str, wanted: Wanted, seen: View, row: Any, *, is_all: bool, is_full: bool
    ) -> None:
        told = row.high_watermark, row.log_start_offset
        data = bytes(row.records or b"")
        if seen.is_dead:
            raise Wrong(f"{what} is named, although its topic is gone")
        if not is_full and not data and told == wanted.told:
            raise Wrong(f"{what} is named without news")
        wanted.told = told
        log, topic = seen.log, seen.topic
        if not seen.is_alive or log is None or topic is None:
            return
        if told[0] < seen.end:
            raise Wrong(f"{what} ends at {told[0]}; {seen.end} was acknowledged")
        if not log.start >= told[1] >= log.durable_start and not told[1] <= log.may_start:
            raise Wrong(f"{what} starts at {told[1]}")
        must_have = is_all and wanted.size >= _ENOUGH and wanted.offset >= log.may_start
        if must_have and not data and seen.has_data:
            raise Wrong(f"{what} gets no data at {wanted.offset}")
        self._records.check_fetched(topic, seen.partition, wanted.offset, data)
        for each in read_batches(data):
            wanted.next = each.last + 1


def _name(session: Session, key: Any) -> tuple[str, bytes]:
    return ("", key) if session.is_by_id else (key, bytes(16))
