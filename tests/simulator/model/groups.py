"""The offsets that a group may have committed: a register of writes for each partition.

A write (a commit, or a deletion as a commit of nothing) takes effect at one moment between its
request and its answer. So a write is out of the question once another one began after its answer
and was acknowledged. A write without a sure answer may have taken effect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tests.simulator.model.log import Wrong
from tests.simulator.model.topics import Presence

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tests.simulator.model.topics import TopicModel

NONE: Final = -1
"""The offset that tells that nothing is committed."""


class Committed(NamedTuple):
    """A committed offset. Each commit of a history has another offset."""

    offset: int = NONE
    epoch: int = -1
    metadata: str = ""


NOTHING: Final = Committed()


class Write:
    """One commit of a partition, or its deletion.

    ``end`` is when it was answered, None without an answer. ``expires_ms`` is when it may go by
    itself, ``must_go_ms`` when it must, if nothing keeps it; members keep it up to ``kept_ms``. A
    write that is exact names its topic by id, so that it cannot reach another life. One of a
    transaction is hidden until that may be committed, and open until that has ended.
    """

    __slots__ = (
        *("end", "expires_ms", "is_aborted", "is_exact", "is_hidden", "is_open", "is_refused"),
        *("is_sure", "kept_ms", "must_go_ms", "start", "value"),
    )

    def __init__(
        self, value: Committed, start: int, expires_ms: int, *, is_exact: bool = False
    ) -> None:
        self.value = value
        self.start = start
        self.end: int | None = None
        self.expires_ms, self.kept_ms = expires_ms, 0
        self.must_go_ms = float("inf")
        self.is_exact = is_exact
        self.is_sure = self.is_refused = self.is_aborted = self.is_hidden = self.is_open = False

    def answered(self, now: int, *, is_sure: bool) -> None:
        """Note the answer."""
        self.end = now
        self.is_sure = is_sure

    def refused(self) -> None:
        """Note that it was refused by a rule, so that it has no effect."""
        self.is_refused = True

    def aborted(self) -> None:
        """Note that its transaction was aborted: the journal has it, and a marker behind it.

        A power failure may take the marker alone, and a later commit of the producer then shows it.
        """
        self.is_refused = self.is_aborted = True


class Reading:
    """A read of a register that is under way: the writes that it may see."""

    def __init__(self, register: Register) -> None:
        self.register = register
        self.writes = register.possible()
        register.readings.append(self)

    def end(self) -> Reading:
        """Note that the read has its answer; return the read."""
        self.register.readings.remove(self)
        return self

    def allows(self, found: Committed, now_ms: int, *, has_epoch: bool = True) -> bool:
        """Tell whether the read may have found this."""
        return self.register.is_among(self.writes, found, now_ms, has_epoch=has_epoch)


class Register:
    """The offsets that a group may have committed for one partition of one life of a topic.

    ``past`` has the values that a power failure may bring back.
    """

    def __init__(self, life: bytes) -> None:
        self.life = life
        self.past: list[Write] = []
        self.readings: list[Reading] = []
        self._began = 0
        self._had_open = False
        self._writes: list[Write] = []
        self._set(Write(NOTHING, 0, 0), 0)

    def _set(self, write: Write, now: int) -> None:
        """Know what is committed; what open transactions have may follow."""
        left = [each for each in self._writes if each.is_open]
        for each in left:
            each.end = None
        write.answered(now, is_sure=True)
        self._writes = [write, *left]

    def follow(self, before: Register) -> Register:
        """Take over what may reach this life of the topic or the one before; return this one."""
        self._writes += [each for each in before._writes if not each.is_exact and not each.is_sure]
        return self

    def may_have(self, write: Write) -> bool:
        """Tell whether a write may reach this life, perhaps by the topic's name."""
        return write in self._writes

    def send(self, write: Write) -> Write:
        """Note that a write is on its way."""
        self._writes.append(write)
        for each in self.readings:
            each.writes.append(write)
        return write

    def possible(self) -> list[Write]:
        """Return the writes that may be the last one that took effect."""
        last = max(each.start for each in self._writes if each.is_sure and not each.is_refused)
        left = []
        for each in self._writes:
            if each.is_refused:
                if each.is_aborted:
                    self.past.append(Write(each.value, each.start, each.expires_ms))
                continue
            if each.end is None or each.end >= last:
                left.append(each)
            else:
                self.past.append(each)
        self._writes = left
        return left.copy()

    @staticmethod
    def is_among(
        writes: list[Write], found: Committed, now_ms: int, *, has_epoch: bool = True
    ) -> bool:
        """Tell whether one of the writes may be seen as this."""
        for each in writes:
            if each.is_refused or each.is_hidden:
                continue
            value = each.value if has_epoch else each.value._replace(epoch=NONE)
            is_over = now_ms >= max(each.expires_ms, each.kept_ms)
            if value == found or (found == NOTHING and is_over):
                return True
        return False

    def restarted(self, now: int, *, may_lose: bool) -> None:
        """Note that nothing is on its way any more, and that members may be forgotten."""
        self._began = now
        self._had_open = any(each.is_open for each in self._writes)
        for each in self._writes:
            each.kept_ms *= not may_lose
            if each.end is None:
                each.answered(now, is_sure=False)
        self.readings.clear()

    def settle(
        self, found: Committed, now: int, now_ms: int, way: str, *, is_durable: bool
    ) -> None:
        """Compare with what is found after a start, which is the truth from then on.

        ``is_durable`` tells whether each acknowledgement waited for the disk. That an offset
        expires is acknowledged to nobody.

        Raises:
            Wrong: An acknowledged write is lost, or one has come back, or nobody has sent this.
        """
        writes = self.possible()
        others = self.past if way == "power" else []
        if is_durable:
            others = [each for each in others if now_ms >= each.expires_ms]
        if not self.is_among([*writes, *others], found, now_ms):
            allowed = [tuple(each.value) for each in writes]
            raise Wrong(f"{tuple(found)} is committed; it may be one of {allowed}")
        same = [each for each in (*writes, *self.past) if each.value == found]
        is_new = self._had_open or any(each.start > self._began for each in writes)
        if way == "kill" or is_new:
            self.past += writes  # what came, or ended, since the start is not durable
        else:
            self.past = []
        truth = Write(found, now, min((each.expires_ms for each in same), default=0))
        truth.kept_ms = min((each.kept_ms for each in same), default=0)
        truth.must_go_ms = min((each.must_go_ms for each in same), default=truth.must_go_ms)
        self._set(truth, now)

    def keep(self, since_ms: int, now_ms: int, retention_ms: int) -> None:
        """Note that members kept what is committed from expiring between two moments."""
        for each in self._writes:
            if max(each.expires_ms, each.kept_ms) >= since_ms:
                each.expires_ms = max(each.expires_ms, now_ms)
                each.kept_ms = now_ms + retention_ms


class GroupModel:
    """One group: a register for each partition of each topic, and its members, if it has some.

    ``protocol`` is that of the members: ``classic``, ``consumer`` or ``both``. Offsets stay for
    ``retention_ms`` behind the last member; in the other protocols they expire by their own time.
    """

    retention_ms = 0

    def __init__(self, name: str, members: Sequence[Any] = (), protocol: str = "classic") -> None:
        self.name = name
        self.members = members
        self.protocol = protocol
        self.registers: dict[tuple[str, int], Register] = {}

    def is_sure(self, member: Any, now_ms: int) -> bool:
        """Tell whether the broker must know a member as it knows itself."""
        del member, now_ms
        return False

    def find_sure(self, now_ms: int, topic: str = "") -> set[str]:
        """Return the members that the group must have; with a topic, those that keep its offsets.

        A request may count on those alone that are known before it and after its answer.
        """
        del topic
        return {each.id for each in self.members if self.is_sure(each, now_ms)}

    def stay(self, member: Any, now_ms: int, *, was_sure: bool) -> None:
        """Note that a member is known: if it was before, it kept offsets since its last answer."""
        for (topic, _), register in self.registers.items() if was_sure else ():
            if member.id in self.find_sure(now_ms, topic):
                register.keep(member.seen_ms, now_ms, self.retention_ms)
        member.seen_ms = now_ms

    def find_member(self, share: float) -> Any:
        """Return a member that has joined and waits for no answer, None without one."""
        ready = [each for each in self.members if each.generation and not each.is_busy]
        return ready[int(share * len(ready))] if ready else None

    def register(self, topic: TopicModel, partition: int) -> Register:
        """Return the register of a partition of the topic's present life."""
        key = topic.name, partition
        register = self.registers.get(key)
        if register is None or register.life != topic.topic_id:
            before, register = register, Register(topic.topic_id)
            if before is not None:
                register.follow(before)
            self.registers[key] = register
        return register

    def all_registers(
        self, topics: Mapping[str, TopicModel]
    ) -> Iterator[tuple[TopicModel, int, Register]]:
        """Yield the registers of all partitions, those of topics that are gone too."""
        for topic in topics.values():
            for partition in range(max(topic.partitions, _MOST_PARTITIONS)):
                yield topic, partition, self.register(topic, partition)


_MOST_PARTITIONS: Final = 4
"""So many partitions have registers in any case: a topic may grow while a group is deleted."""


def is_certain(topic: TopicModel, life: bytes) -> bool:
    """Tell whether the topic exists, in this life."""
    return topic.presence is Presence.PRESENT and topic.topic_id == life
