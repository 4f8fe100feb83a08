"""The rights of one client: an authorizer's answers, and a line of the audit log for each refusal.

Handlers ask through the context of a request, which has rights if there is an authorizer.
Operations and kinds of resources are Kafka's numbers here. `acl` has types for them; these take
milliseconds to import, which a start without an authorizer saves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from siltstone.protocol.names import CLUSTER_NAME

if TYPE_CHECKING:
    from siltstone.broker.security.audit import Audit
    from siltstone.broker.security.authorizer import Authorizer

READ: Final = 3
WRITE: Final = 4
CREATE: Final = 5
DELETE: Final = 6
ALTER: Final = 7
DESCRIBE: Final = 8
CLUSTER_ACTION: Final = 9
DESCRIBE_CONFIGS: Final = 10
ALTER_CONFIGS: Final = 11
IDEMPOTENT_WRITE: Final = 12
TWO_PHASE_COMMIT: Final = 15

TOPIC: Final = 2
GROUP: Final = 3
CLUSTER: Final = 4
TRANSACTIONAL_ID: Final = 5

TOPIC_OPERATIONS: Final = (
    READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS,
)  # fmt: skip
GROUP_OPERATIONS: Final = (READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS)
CLUSTER_OPERATIONS: Final = (
    CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE,
)  # fmt: skip


class Rights:
    """The rights of a principal that comes from one host (loop only)."""

    __slots__ = ("_answers", "_audit", "authorizer", "host", "principal")

    def __init__(self, authorizer: Authorizer, audit: Audit, principal: str, host: str) -> None:
        self.authorizer = authorizer
        self._answers = authorizer.find_answers(principal, host)
        self._audit = audit
        self.principal = principal
        self.host = host

    @property
    def in_force(self) -> tuple[str, str, int]:
        """The values in which these rights differ from another client's or from older ones."""
        return self.principal, self.host, self.authorizer.change_count

    def may(self, operation: int, resource: int, name: str = CLUSTER_NAME) -> bool:
        """Return whether the client may do it; if not, the audit log says so."""
        answer = self._answers.get((operation, resource, name))  # as in `sees`, without the call
        if answer is None:
            answer = self.authorizer.allows(self.principal, self.host, operation, resource, name)
        if not answer:
            self._note_refused(operation, resource, name)
        return answer

    def sees(self, operation: int, resource: int, name: str = CLUSTER_NAME) -> bool:
        """Return whether the client may do an operation; a "no" is not logged as a refusal."""
        answer = self._answers.get((operation, resource, name))
        if answer is None:
            answer = self.authorizer.allows(self.principal, self.host, operation, resource, name)
        return answer

    def sees_topic(self, name: str) -> bool:
        """Return whether the client may describe a topic."""
        return self.sees(DESCRIBE, TOPIC, name)

    def may_any(self, operation: int, resource: int) -> bool:
        """Return whether the client may do an operation with any resource of a kind."""
        if self.authorizer.allows_any(self.principal, self.host, operation, resource):
            return True
        self._note_refused(operation, resource, "")
        return False

    def topic_operations(self, name: str) -> int:
        """Return a bit for each operation that the client may do with a topic (KIP-430)."""
        return self._operations(TOPIC, name, TOPIC_OPERATIONS)

    def group_operations(self, name: str) -> int:
        """Return a bit for each operation that the client may do with a group."""
        return self._operations(GROUP, name, GROUP_OPERATIONS)

    def cluster_operations(self) -> int:
        """Return the bits for the cluster; none for a client that may not describe the cluster."""
        found = self._operations(CLUSTER, CLUSTER_NAME, CLUSTER_OPERATIONS)
        return found if found & 1 << DESCRIBE else 0

    def _operations(self, resource: int, name: str, among: tuple[int, ...]) -> int:
        return self.authorizer.operations(self.principal, self.host, resource, name, among)

    def _note_refused(self, operation: int, resource: int, name: str) -> None:
        from siltstone.broker.security.acl import Operation, ResourceType  # noqa: PLC0415  # see above

        self._audit.refused(
            self.principal, self.host, Operation(operation).name, ResourceType(resource).name, name
        )
