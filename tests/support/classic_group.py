"""A classic group with a fake clock, a journal that is a list, and answers that are kept."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from siltstone.broker.coordination.timers import Timers
from siltstone.broker.groups.classic.group import ClassicGroup, ClassicServices
from siltstone.broker.groups.classic.messages import (
    AskedProtocols,
    JoinRequest,
    JoinResult,
    SyncRequest,
    SyncResult,
)
from siltstone.broker.groups.group import GroupState
from siltstone.broker.groups.member_bytes import MemberBytes
from siltstone.broker.process.bounded_lines import BoundedLines
from siltstone.broker.process.client_limits import Limits
from siltstone.config.server import ServerConfig
from siltstone.protocol.coordinator.group_records import read_group
from siltstone.protocol.errors import ErrorCode, KafkaError
from siltstone.protocol.messages import Octets
from siltstone.protocol.messages.consumer_offsets import GroupMetadataValue
from siltstone.protocol.records.journal import Row
from tests.support.clock import FakeClock

SESSION_MS = 10_000
REBALANCE_MS = 60_000
RANGE: AskedProtocols = (("range", b"metadata"),)


class Asked:
    """One join: its answer, if it has come, and its member."""

    def __init__(self, request: JoinRequest) -> None:
        self.request = request
        self.answers: list[JoinResult] = []

    @property
    def is_parked(self) -> bool:
        """Whether no answer has come."""
        return not self.answers

    @property
    def answer(self) -> JoinResult:
        """The answer, of which there is exactly one."""
        (answer,) = self.answers
        return answer


class GroupInHand:
    """A group and everything around it; ``refusal`` is the error of the journal, if it fails."""

    def __init__(self, **settings: int) -> None:
        self.clock = FakeClock()
        self.timers = Timers(self.clock)
        self.settings = ServerConfig(**settings)  # type: ignore[arg-type]
        self.written: list[GroupMetadataValue] = []
        self.refusal: KafkaError | None = None
        self.member_bytes = MemberBytes.of(Limits(lambda: self.settings))
        self.group = ClassicGroup(
            "g",
            7,
            ClassicServices(
                clock=self.clock,
                timers=self.timers,
                settings=lambda: self.settings,
                write=self._write,
                max_batch_bytes=lambda _partition: 1 << 20,
                member_bytes=self.member_bytes,
                unwritten=BoundedLines(self.clock.monotonic),
            ),
        )

    def _write(self, partition: int, rows: Sequence[Row]) -> None:
        assert partition == 7
        if self.refusal is not None:
            raise self.refusal
        for _, value in rows:
            assert value is not None
            self.written.append(read_group(value))

    def state(self) -> GroupState:
        """Return the state of the group."""
        return self.group.state

    def advance(self, milliseconds: float) -> None:
        """Let time pass, and run the timers that are due."""
        self.clock.advance(milliseconds)
        self.timers.run_due()

    def join(
        self,
        member_id: str = "",
        instance_id: str | None = None,
        *,
        protocols: AskedProtocols = RANGE,
        protocol_type: str = "consumer",
        version: int = 9,
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
    ) -> Asked:
        """Send one JoinGroup; a refusal counts as an answer."""
        request = JoinRequest(
            member_id=member_id,
            instance_id=instance_id,
            client_id="c",
            client_host="/10.0.0.7",
            protocol_type=protocol_type,
            protocols=protocols,
            rebalance_timeout_ms=rebalance_ms,
            session_timeout_ms=session_ms,
            requires_known_id=version >= 4,
            may_skip_assignment=version >= 9,
        )
        return self.send(request)

    def send(self, request: JoinRequest) -> Asked:
        """Send a JoinGroup as it is."""
        asked = Asked(request)
        try:
            self.group.join(request, asked.answers.append)
        except KafkaError as error:
            asked.answers.append(JoinResult(error.code, request.member_id))
        return asked

    def enter(
        self, *, protocols: AskedProtocols = RANGE, session_ms: int = SESSION_MS
    ) -> tuple[str, Asked]:
        """Join as a new member does: get an id, and join with it."""
        first = self.join(protocols=protocols, session_ms=session_ms)
        assert first.answer.error is ErrorCode.member_id_required
        member_id = first.answer.member_id
        return member_id, self.send(replace(first.request, member_id=member_id))

    def sync(
        self,
        member_id: str,
        assignments: Mapping[str, Octets] | None = None,
        *,
        generation: int | None = None,
        instance_id: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
    ) -> list[SyncResult]:
        """Send a SyncGroup; the list gets its answer, a refusal included."""
        answers: list[SyncResult] = []
        request = SyncRequest(
            member_id=member_id,
            instance_id=instance_id,
            generation=self.group.generation if generation is None else generation,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=assignments or {},
        )
        try:
            self.group.sync(request, answers.append)
        except KafkaError as error:
            answers.append(SyncResult(error.code))
        return answers

    def beat(
        self, member_id: str, *, generation: int | None = None, instance_id: str | None = None
    ) -> ErrorCode:
        """Send a Heartbeat and return its code."""
        try:
            self.group.heartbeat(
                member_id, instance_id, self.group.generation if generation is None else generation
            )
        except KafkaError as error:
            return error.code
        return ErrorCode.none

    def commit(
        self,
        member_id: str,
        generation: int,
        instance_id: str | None = None,
        version: int | None = 8,
    ) -> ErrorCode:
        """Ask whether an OffsetCommit is allowed; without a version, a TxnOffsetCommit."""
        try:
            self.group.check_commit(member_id, instance_id, generation, version)
        except KafkaError as error:
            return error.code
        return ErrorCode.none

    def gather(self, count: int) -> list[str]:
        """Bring an empty group to CompletingRebalance; return the member ids, leader first."""
        joined = [self.enter() for _ in range(count)]
        self.advance(self.settings.group_initial_rebalance_delay_ms)
        while any(asked.is_parked for _, asked in joined):
            self.advance(self.settings.group_initial_rebalance_delay_ms)
        assert all(asked.answer.error is ErrorCode.none for _, asked in joined)
        return [member_id for member_id, _ in joined]

    def settle(self, count: int) -> list[str]:
        """Bring an empty group to Stable; return the member ids, leader first."""
        members = self.gather(count)
        assignments = {member_id: f"of-{member_id}".encode() for member_id in members}
        for member_id in reversed(members):
            self.sync(member_id, assignments if member_id == members[0] else None)
        return members
