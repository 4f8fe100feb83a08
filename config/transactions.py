"""The settings of transactions (Kafka: TransactionStateManagerConfig, TransactionLogConfig)."""

from dataclasses import dataclass

from siltstone.config.keys import at_least, key


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionConfig:
    """What the transaction coordinator obeys; a part of `config.server`."""

    transaction_max_timeout_ms: int = key(
        900_000,
        "The longest transaction.timeout.ms that a producer may ask for; more is refused.",
        check=at_least(1),
    )
    transactional_id_expiration_ms: int = key(
        604_800_000,
        "How long a transactional id is remembered after its last transaction. Its producer has to "
        "begin anew afterwards.",
        check=at_least(1),
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = key(
        10_000,
        "How often transactions are looked for that have lasted longer than their time-out; they "
        "are aborted and their producers fenced.",
        check=at_least(1),
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = key(
        3_600_000, "How often expired transactional ids are looked for.", check=at_least(1)
    )
    transaction_partition_verification_enable: bool = key(
        True,
        "Whether a batch is refused that belongs to no open transaction of its producer; it would "
        "hang, and hold up every reader of committed records.",
        dynamic=True,
    )
    transaction_state_log_num_partitions: int = key(
        50,
        "How many partitions __transaction_state gets when it is made; not changed later.",
        check=at_least(1),
    )
    transaction_state_log_segment_bytes: int = key(
        104_857_600, "segment.bytes of __transaction_state when it is made.", check=at_least(1)
    )
