"""Authorized operations as the bit fields of answers: bit n stands for AclOperation n (KIP-430).

Without an authorizer everybody may do everything that Kafka knows for such a resource.
"""

NOT_ASKED = -(2**31)


def _bits(*operations: int) -> int:
    return sum(1 << operation for operation in operations)


TOPIC = _bits(3, 4, 5, 6, 7, 8, 10, 11)
"""READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS."""

GROUP = _bits(3, 6, 8, 10, 11)
"""READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS."""

CLUSTER = _bits(5, 7, 8, 9, 10, 11, 12)
"""CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE."""
