"""The batches that a log may remember of a producer, and how it must answer the next one.

A request without an answer may have been served, or may still be: so the memory of a log is one
of several, its worlds. An answer leaves those that agree with it, a log that was read whole one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from tests.simulator.model.log import Wrong, numbers_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.simulator.model.log import LogModel, Numbers, Sent

SEQUENCES: Final = 1 << 31
OUT_OF_ORDER, OLD_EPOCH = 45, 47
_REMEMBERED: Final = 5
"""How many batches of a producer a log knows again."""


class Numbered:
    """A batch with its numbers, the same one in all tries to send it."""

    def __init__(self, sent: Sent, frame: bytes, end_before: int) -> None:
        self.sent = sent
        self.frame = frame
        self.numbers: Numbers = numbers_of(sent.body)
        self.end_before = end_before
        self.base: int | None = None
        self.tries = 0
        self.may_be_forgotten = False
        self.expected: list[Outcome] = []

    @property
    def following(self) -> int:
        """The sequence behind it."""
        return (self.numbers.last + 1) % SEQUENCES

    def is_like(self, other: Numbered) -> bool:
        """Tell whether a log takes them for the same batch."""
        mine, others = self.numbers, other.numbers
        return (mine.epoch, mine.first, mine.last) == (others.epoch, others.first, others.last)


class World(NamedTuple):
    """A possible memory: the epoch, and all batches of it in their order."""

    epoch: int
    batches: tuple[Numbered, ...] = ()


class Outcome(NamedTuple):
    """An error, or none; and the batch for which a repeated one is taken."""

    error: int
    repeated: Numbered | None = None


def outcomes(world: World | None, batch: Numbered) -> list[Outcome]:
    """Return how a log may answer a batch; without a memory it takes any."""
    numbers = batch.numbers
    if world is None:
        return [Outcome(0)]
    if numbers.epoch < world.epoch:
        return [Outcome(OLD_EPOCH)]
    is_same = numbers.epoch == world.epoch
    if numbers.first == (world.batches[-1].following if is_same and world.batches else 0):
        return [Outcome(0)]
    for each in world.batches[-_REMEMBERED:]:
        if each.is_like(batch):
            refusals = [Outcome(OUT_OF_ORDER)] if each.may_be_forgotten else []
            return [Outcome(0, each), *refusals]
    return [Outcome(OUT_OF_ORDER)]


def after(world: World | None, batch: Numbered) -> World | None:
    """Return the memory once a batch was served."""
    if outcomes(world, batch) != [(0, None)]:
        return world
    epoch = batch.numbers.epoch
    before = world.batches if world is not None and world.epoch == epoch else ()
    return World(epoch, (*before, batch))


class Memory:
    """The possible memories that one log has of one producer.

    While it ``is_open`` anything may be remembered: the topic may have been deleted.
    """

    def __init__(self, log: LogModel) -> None:
        self.log = log
        self.is_open = False
        self._worlds: list[World | None] = [None]
        self._past: dict[int, World] = {}
        """The last memory of each epoch: the power may take all batches of the present one."""
        self._may_go_back = False
        self._unanswered: list[Numbered] = []

    @property
    def may_be_empty(self) -> bool:
        """Tell whether the log may know nothing of the producer, whose batches were deleted."""
        return None in self._worlds

    def expire(self, before_ms: int) -> None:
        """Note that a log may have forgotten the producer, unless one of its batches is newer."""
        batches = {each for world in self._worlds if world for each in world.batches}
        old = {each for each in batches if each.sent.timestamps[-1] <= before_ms}
        for each in old:
            each.may_be_forgotten = True
        if None not in self._worlds and any(
            world.batches[-1] in old for world in self._worlds if world
        ):
            self._worlds.append(None)
            for each in self._unanswered:
                each.expected.append(Outcome(0))
                self.log.sending_again(each.sent, is_known=False)
            self._serve()

    def sending(self, batch: Numbered) -> None:
        """Note that a batch is on its way."""
        batch.tries += 1
        batch.expected = [each for world in self._worlds for each in outcomes(world, batch)]
        if batch not in self._unanswered:
            self._unanswered.append(batch)
        self._serve()

    def _serve(self) -> None:
        """Add the memories to which batches lead that are on their way."""
        known = set(self._worlds)
        for world in self._worlds:  # grows
            for each in self._unanswered:
                new = after(world, each)
                if new not in known:
                    known.add(new)
                    self._worlds.append(new)

    def taken(self, batch: Numbered, base: int) -> Numbered | None:
        """Judge that a batch was acknowledged; return the batch at the offset, None if unsure.

        Raises:
            Wrong: It had to be refused, or repeats one that is at another offset.
        """
        if self.is_open:  # it may repeat one that the log has from before
            batch.base = base
            return batch if base >= batch.end_before else None
        found = [each for each in batch.expected if each.error == 0]
        repeated = [each.repeated for each in found if each.repeated is not None]
        if not found:
            raise Wrong(f"{batch.numbers} was taken at {base}; {batch.expected[0].error} is due")
        if len(repeated) == len(found) and all(each.base not in {None, base} for each in repeated):
            raise Wrong(f"{batch.numbers} at {base}; it repeats the one at {repeated[0].base}")
        unplaced = [each for each in repeated if each.base is None]
        choices = [each for each in repeated if each.base == base] or unplaced or [batch]
        known = batch if batch in choices else choices[0]
        if batch.tries == 1:
            self._unanswered.remove(batch)
        if known is not batch and len(repeated) < len(found):
            return None
        known.base = base
        kept = {batch, *repeated}
        self._leave([each for each in self._worlds if each and kept & set(each.batches)])
        return known

    def refused(self, batch: Numbered, error: int) -> None:
        """Judge that a batch was refused by the rules of sequences and epochs.

        Raises:
            Wrong: It had to be taken, or refused otherwise.
        """
        if not self.is_open and all(each.error != error for each in batch.expected):
            raise Wrong(f"{batch.numbers}: error {error}; {batch.expected[0].error} is due")
        self.left_out(batch)

    def left_out(self, batch: Numbered) -> None:
        """Note that this try was not written."""
        if batch.tries == 1:
            if batch in self._unanswered:
                self._unanswered.remove(batch)
            worlds = [each for each in self._worlds if each is None or batch not in each.batches]
            self._leave(worlds)

    def _leave(self, worlds: list[World | None]) -> None:
        if worlds:
            self._worlds = worlds
            self._note_past()

    def _note_past(self) -> None:
        self._past |= {each.epoch: each for each in self._worlds if each is not None}

    def settle(self, known: Mapping[bytes, Numbered]) -> None:
        """Take the memory from the batches that the log has."""
        found: World | None = None
        there = set()
        for each in self.log.kept:
            batch = known.get(each.sent.body)
            if batch is None or each.last < self.log.start:
                continue
            batch.base = each.base
            there.add(batch)
            found = after_any(found, batch)
        if not self.log.start:
            self._worlds, self.is_open = [found], False
        elif not self.is_open:
            past = self._past.values() if self._may_go_back else ()
            before = [part for each in (*self._worlds, *past) for part in _parts_of(each)]
            older = [each for each in before if self._may_be(each, found, there)]
            self._worlds = list(dict.fromkeys([found, *older]))
        self._note_past()
        self._serve()

    def settled(self) -> None:
        """Note that nothing is on its way."""
        self._unanswered.clear()
        self._may_go_back = False

    def _may_be(self, world: World | None, found: World | None, there: set[Numbered]) -> bool:
        """Tell whether a memory from before fits the log, whose front is gone."""
        if world is None or (found is not None and world.epoch != found.epoch):
            return False
        last = found.batches if found is not None else ()
        start = self.log.start
        is_gone = [each for each in world.batches if each not in there]
        return world.batches[len(world.batches) - len(last) :] == last and all(
            each.base is None or each.base < start for each in is_gone
        )

    def restarted(self, way: str) -> None:
        """Note that of old batches only the last is known surely, as in Kafka's snapshots."""
        self._may_go_back |= way == "power"
        for world in self._worlds:
            for each in world.batches[:-1] if world is not None else ():
                each.may_be_forgotten = True


def _parts_of(world: World | None) -> list[World | None]:
    """Return a memory, and those that it was before: the power may have taken its last batches."""
    if world is None:
        return [None]
    return [world._replace(batches=world.batches[:end]) for end in range(len(world.batches), 0, -1)]


def after_any(world: World | None, batch: Numbered) -> World:
    """Return the memory that a log builds from a batch that it has, whatever the rules say."""
    epoch = batch.numbers.epoch
    before = world.batches if world is not None and world.epoch == epoch else ()
    return World(epoch, (*before, batch))
