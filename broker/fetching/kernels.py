"""What consumers ask of partitions, compiled where they could be: import them from here."""

from typing import TYPE_CHECKING

from siltstone.protocol.records.choosing import choose

if TYPE_CHECKING:
    from siltstone.broker.fetching._fetch_kernels import (
        EARLIEST,
        LATEST,
        NO_DIVERGENCE,
        READ_COMMITTED,
        FetchPlan,
        FetchRead,
        are_distinct,
        is_read_up,
        list_ends,
        list_epoch_ends,
        list_wanted,
        refused,
        replica_of,
    )
else:
    _fetch = choose("siltstone.broker.fetching._fetch_kernels")
    EARLIEST = _fetch.EARLIEST
    LATEST = _fetch.LATEST
    NO_DIVERGENCE = _fetch.NO_DIVERGENCE
    READ_COMMITTED = _fetch.READ_COMMITTED
    FetchPlan = _fetch.FetchPlan
    FetchRead = _fetch.FetchRead
    are_distinct = _fetch.are_distinct
    is_read_up = _fetch.is_read_up
    list_ends = _fetch.list_ends
    list_epoch_ends = _fetch.list_epoch_ends
    list_wanted = _fetch.list_wanted
    refused = _fetch.refused
    replica_of = _fetch.replica_of

__all__ = [
    "EARLIEST",
    "LATEST",
    "NO_DIVERGENCE",
    "READ_COMMITTED",
    "FetchPlan",
    "FetchRead",
    "are_distinct",
    "is_read_up",
    "list_ends",
    "list_epoch_ends",
    "list_wanted",
    "refused",
    "replica_of",
]
