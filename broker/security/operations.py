"""What a client may want to do, and with what: Kafka's numbers, by the names that handlers use.

`acl` has them as types, which take milliseconds to make: a start without an authorizer does without
them.
"""

from __future__ import annotations

from typing import Final

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

CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the one cluster."""
