"""Transitions of one transactional id, by table: Kafka's answer in every state."""

from collections.abc import Callable

import pytest

from siltstone.broker.transactions.ending import End, end_transaction, fence
from siltstone.broker.transactions.initialising import Expected, begin, initialise, takes_new_id
from siltstone.broker.transactions.transaction import (
    MAX_EPOCH,
    NO_PARTITIONS,
    Transaction,
    TransactionState,
    add_partitions,
    complete,
    verify_partition,
)
from siltstone.protocol.errors import (
    ConcurrentTransactions,
    InvalidProducerIdMapping,
    InvalidTxnState,
    KafkaError,
    ProducerFenced,
    TransactionAbortable,
)

S = TransactionState
ID, OTHER_ID, NEW_ID = 4000, 5000, 6000
EPOCH = 7
NOW = 1_700_000_000_000
ORDERS = ("orders", 0)
PARTITIONS = frozenset({ORDERS})
OPEN_OR_PREPARED = {S.ONGOING, S.PREPARE_COMMIT, S.PREPARE_ABORT}


def standing(state: TransactionState, epoch: int = EPOCH, **fields: int) -> Transaction:
    """Return a transactional id in a state."""
    return begin(ID, 60_000, NOW - 5000)._replace(
        state=state,
        producer_epoch=epoch,
        partitions=PARTITIONS if state in OPEN_OR_PREPARED else NO_PARTITIONS,
        started_ms=NOW - 4000,
        **fields,
    )


def run_end(
    transaction: Transaction | None,
    *,
    commit: bool,
    version: int,
    epoch: int = EPOCH,
    producer_id: int = ID,
) -> Transaction:
    """End it now."""
    return end_transaction(
        transaction, End(producer_id, epoch, commit, version), new_producer_id=NEW_ID, now_ms=NOW
    )


def run_init(
    transaction: Transaction, expected: Expected | None = None, version: int = 2
) -> Transaction:
    """Initialise it now."""
    return initialise(
        transaction, expected, 30_000, new_producer_id=NEW_ID, version=version, now_ms=NOW
    )


def run_fence(transaction: Transaction, version: int) -> Transaction:
    """Fence its producer now."""
    return fence(transaction, version=version, new_producer_id=NEW_ID, now_ms=NOW)


COMMIT_BY_OLD_CLIENT: list[tuple[TransactionState, TransactionState | type[KafkaError]]] = [
    (S.EMPTY, InvalidTxnState),
    (S.ONGOING, S.PREPARE_COMMIT),
    (S.PREPARE_COMMIT, ConcurrentTransactions),
    (S.PREPARE_ABORT, InvalidTxnState),
    (S.COMPLETE_COMMIT, S.COMPLETE_COMMIT),
    (S.COMPLETE_ABORT, InvalidTxnState),
]
ABORT_BY_OLD_CLIENT: list[tuple[TransactionState, TransactionState | type[KafkaError]]] = [
    (S.EMPTY, InvalidTxnState),
    (S.ONGOING, S.PREPARE_ABORT),
    (S.PREPARE_COMMIT, InvalidTxnState),
    (S.PREPARE_ABORT, ConcurrentTransactions),
    (S.COMPLETE_COMMIT, InvalidTxnState),
    (S.COMPLETE_ABORT, S.COMPLETE_ABORT),
]


@pytest.mark.parametrize(
    ("commit", "state", "outcome"),
    [(True, *row) for row in COMMIT_BY_OLD_CLIENT] + [(False, *row) for row in ABORT_BY_OLD_CLIENT],
)
@pytest.mark.parametrize("version", [0, 1])
def test_end_by_a_client_that_keeps_its_epoch(
    version: int,
    commit: bool,
    state: TransactionState,
    outcome: TransactionState | type[KafkaError],
) -> None:
    """EndTxn up to v4: only an open transaction ends, the same end again succeeds."""
    transaction = standing(state)
    if isinstance(outcome, type):
        with pytest.raises(outcome):
            run_end(transaction, commit=commit, version=version)
        return

    ended = run_end(transaction, commit=commit, version=version)

    assert ended.state is outcome
    assert ended.producer_epoch == EPOCH
    assert (ended is transaction) == (state is outcome)


@pytest.mark.parametrize(
    ("commit", "state", "outcome"),
    [
        (True, S.EMPTY, InvalidTxnState),
        (True, S.ONGOING, S.PREPARE_COMMIT),
        (True, S.PREPARE_COMMIT, ConcurrentTransactions),
        (True, S.PREPARE_ABORT, ConcurrentTransactions),
        (True, S.COMPLETE_COMMIT, InvalidTxnState),
        (True, S.COMPLETE_ABORT, InvalidTxnState),
        (False, S.EMPTY, S.PREPARE_ABORT),
        (False, S.ONGOING, S.PREPARE_ABORT),
        (False, S.PREPARE_COMMIT, ConcurrentTransactions),
        (False, S.PREPARE_ABORT, ConcurrentTransactions),
        (False, S.COMPLETE_COMMIT, S.PREPARE_ABORT),
        (False, S.COMPLETE_ABORT, S.PREPARE_ABORT),
    ],
)
def test_end_with_the_current_epoch_bumps_it(
    commit: bool, state: TransactionState, outcome: TransactionState | type[KafkaError]
) -> None:
    """EndTxn v5: the next epoch begins; an abort of nothing succeeds, a commit of nothing not."""
    if isinstance(outcome, type):
        with pytest.raises(outcome):
            run_end(standing(state), commit=commit, version=2)
        return

    ended = run_end(standing(state), commit=commit, version=2)

    assert ended.state is outcome
    assert (ended.producer_epoch, ended.last_epoch) == (EPOCH + 1, EPOCH)
    assert ended.partitions == (PARTITIONS if state is S.ONGOING else NO_PARTITIONS)
    assert ended.client_version == 2


@pytest.mark.parametrize(
    ("commit", "state", "outcome"),
    [
        (True, S.EMPTY, ProducerFenced),
        (True, S.ONGOING, ProducerFenced),
        (True, S.PREPARE_COMMIT, ConcurrentTransactions),
        (True, S.PREPARE_ABORT, InvalidTxnState),
        (True, S.COMPLETE_COMMIT, None),
        (True, S.COMPLETE_ABORT, InvalidTxnState),
        (False, S.EMPTY, ProducerFenced),
        (False, S.ONGOING, ProducerFenced),
        (False, S.PREPARE_COMMIT, InvalidTxnState),
        (False, S.PREPARE_ABORT, ConcurrentTransactions),
        (False, S.COMPLETE_COMMIT, InvalidTxnState),
        (False, S.COMPLETE_ABORT, None),
    ],
)
def test_a_late_end_is_never_applied_to_the_next_transaction(
    commit: bool, state: TransactionState, outcome: type[KafkaError] | None
) -> None:
    """EndTxn v5 with the epoch before: answered as the retry it is, or fenced (KIP-890)."""
    transaction = standing(state, EPOCH + 1)
    if outcome is not None:
        with pytest.raises(outcome):
            run_end(transaction, commit=commit, version=2)
        return

    assert run_end(transaction, commit=commit, version=2) is transaction


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("state", [S.EMPTY, S.ONGOING, S.COMPLETE_COMMIT])
@pytest.mark.parametrize(
    ("producer_id", "epoch", "error"),
    [
        (OTHER_ID, EPOCH, InvalidProducerIdMapping),
        (ID, EPOCH + 1, ProducerFenced),
        (ID, EPOCH - 2, ProducerFenced),
    ],
)
def test_end_by_another_producer(
    version: int, state: TransactionState, producer_id: int, epoch: int, error: type[KafkaError]
) -> None:
    """A client that is not the producer of the id ends nothing."""
    with pytest.raises(error):
        run_end(standing(state), commit=True, version=version, producer_id=producer_id, epoch=epoch)


@pytest.mark.parametrize("version", [0, 2])
def test_end_of_an_unknown_id(version: int) -> None:
    """An id that expired, or never was."""
    with pytest.raises(InvalidProducerIdMapping):
        run_end(None, commit=True, version=version)


def test_the_last_epoch_is_followed_by_a_new_producer_id() -> None:
    """EndTxn v5 with epoch 32766: markers carry 32767, the client goes on as another id (KIP-890).

    A retry of that end is known by the id before.
    """
    last = MAX_EPOCH - 1
    prepared = run_end(standing(S.ONGOING, last), commit=True, version=2, epoch=last)
    completed = complete(prepared, NOW + 1)

    assert (prepared.producer_id, prepared.producer_epoch) == (ID, MAX_EPOCH)
    assert prepared.next_producer_id == NEW_ID
    assert (completed.producer_id, completed.producer_epoch) == (NEW_ID, 0)
    assert (completed.previous_producer_id, completed.next_producer_id) == (ID, -1)
    assert completed.last_epoch == last
    assert run_end(completed, commit=True, version=2, epoch=last) is completed
    with pytest.raises(ConcurrentTransactions):
        run_end(prepared, commit=True, version=2, epoch=last)


def fence_by_time(transaction: Transaction) -> Transaction:
    """Abort what is open for too long."""
    return run_fence(transaction, version=2)


@pytest.mark.parametrize("fence_it", [fence_by_time, run_init], ids=["time-out", "InitProducerId"])
def test_who_is_fenced_in_the_last_epoch_goes_on_by_a_new_producer_id(
    fence_it: Callable[[Transaction], Transaction],
) -> None:
    """With epoch 0, whether it sends EndTxn or asks by the id and epoch that it has."""
    last = MAX_EPOCH - 1
    fenced = fence_it(standing(S.ONGOING, last))
    completed = complete(fenced, NOW + 1)

    assert (fenced.producer_id, fenced.producer_epoch) == (ID, MAX_EPOCH)
    assert completed.state is S.COMPLETE_ABORT
    assert (completed.producer_id, completed.producer_epoch) == (NEW_ID, 0)
    assert completed.previous_producer_id == ID
    assert run_end(completed, commit=False, version=2, epoch=last) is completed
    begun = run_init(completed, Expected(ID, last))
    assert (begun.producer_id, begun.producer_epoch) == (NEW_ID, 0)
    with pytest.raises(ProducerFenced):
        run_init(completed, Expected(ID, MAX_EPOCH))
    opened = add_partitions(begun, NEW_ID, 0, [ORDERS], client_version=2, now_ms=NOW)
    assert opened.state is S.ONGOING


def test_nobody_goes_on_with_the_last_epoch() -> None:
    """It only fences: whose open transaction was timed out with it asks for a new producer id."""
    last = MAX_EPOCH - 1
    fenced = complete(run_fence(standing(S.ONGOING, last), version=0), NOW + 1)

    assert fenced.producer_epoch == MAX_EPOCH
    with pytest.raises(ProducerFenced):
        run_end(fenced, commit=False, version=2, epoch=last)


@pytest.mark.parametrize("state", [S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT])
@pytest.mark.parametrize(
    ("expected", "epochs"),
    [
        (None, (EPOCH + 1, -1)),
        (Expected(ID, EPOCH), (EPOCH + 1, EPOCH)),
        (Expected(ID, EPOCH - 1), (EPOCH, EPOCH - 1)),
        (Expected(ID, EPOCH - 2), ProducerFenced),
        (Expected(ID, EPOCH + 1), ProducerFenced),
        (Expected(OTHER_ID, EPOCH), ProducerFenced),
    ],
)
def test_init_between_transactions(
    state: TransactionState, expected: Expected | None, epochs: tuple[int, int] | type[KafkaError]
) -> None:
    """The epoch rises; a request sent again gets the same epoch; anybody else is fenced."""
    transaction = standing(state, last_epoch=EPOCH - 1)
    if isinstance(epochs, type):
        with pytest.raises(epochs):
            run_init(transaction, expected)
        return

    begun = run_init(transaction, expected)

    assert (begun.producer_epoch, begun.last_epoch) == epochs
    assert begun.producer_id == ID
    assert begun.state is S.EMPTY
    assert (begun.timeout_ms, begun.started_ms) == (30_000, -1)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_init_aborts_what_is_open_with_an_epoch_of_its_own(version: int) -> None:
    """The client is told to ask again and gets the epoch after the one that fenced."""
    fenced = run_init(standing(S.ONGOING), version=version)
    begun = run_init(complete(fenced, NOW), version=version)

    assert fenced.state is S.PREPARE_ABORT
    assert fenced.producer_epoch == EPOCH + 1
    assert fenced.partitions == PARTITIONS
    assert begun.producer_epoch == EPOCH + 2


@pytest.mark.parametrize("state", [S.PREPARE_COMMIT, S.PREPARE_ABORT])
def test_init_while_markers_are_written(state: TransactionState) -> None:
    """The client asks again until they are."""
    with pytest.raises(ConcurrentTransactions):
        run_init(standing(state))


@pytest.mark.parametrize("epoch", [MAX_EPOCH - 1, MAX_EPOCH])
@pytest.mark.parametrize("is_expected", [True, False])
def test_init_with_no_epoch_left(epoch: int, is_expected: bool) -> None:
    """A new producer id begins at epoch 0; the last epoch is kept for a client that names it."""
    transaction = standing(S.COMPLETE_COMMIT, epoch)
    expected = Expected(ID, epoch) if is_expected else None

    begun = run_init(transaction, expected)

    assert takes_new_id(transaction, expected, version=2)
    assert (begun.producer_id, begun.producer_epoch) == (NEW_ID, 0)
    assert begun.previous_producer_id == ID
    assert begun.last_epoch == (epoch if is_expected else -1)


def test_init_again_after_a_new_producer_id() -> None:
    """A client that lost the answer names the old id and epoch, and gets the same id again."""
    last = MAX_EPOCH - 1
    begun = run_init(standing(S.EMPTY, last), Expected(ID, last))

    assert run_init(begun, Expected(ID, last)) == begun


@pytest.mark.parametrize("state", [S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT])
@pytest.mark.parametrize("version", [0, 2])
def test_a_first_partition_opens_the_transaction(state: TransactionState, version: int) -> None:
    """Its time runs from then on."""
    opened = add_partitions(
        standing(state), ID, EPOCH, [ORDERS], client_version=version, now_ms=NOW
    )

    assert opened.state is S.ONGOING
    assert opened.partitions == PARTITIONS
    assert (opened.started_ms, opened.updated_ms) == (NOW, NOW)
    assert opened.client_version == version


def test_a_further_partition_keeps_the_start() -> None:
    """The time-out counts from the first; a partition that it has already changes nothing."""
    transaction = standing(S.ONGOING)
    more = add_partitions(
        transaction, ID, EPOCH, [ORDERS, ("orders", 1)], client_version=2, now_ms=NOW
    )

    assert more.partitions == {ORDERS, ("orders", 1)}
    assert more.started_ms == NOW - 4000
    assert (
        add_partitions(transaction, ID, EPOCH, [ORDERS], client_version=2, now_ms=NOW)
        is transaction
    )


@pytest.mark.parametrize(
    ("state", "producer_id", "epoch", "error"),
    [
        (None, ID, EPOCH, InvalidProducerIdMapping),
        (S.EMPTY, OTHER_ID, EPOCH, InvalidProducerIdMapping),
        (S.EMPTY, ID, EPOCH - 1, ProducerFenced),
        (S.ONGOING, ID, EPOCH + 1, ProducerFenced),
        (S.PREPARE_COMMIT, ID, EPOCH, ConcurrentTransactions),
        (S.PREPARE_ABORT, OTHER_ID, EPOCH, ConcurrentTransactions),
    ],
)
def test_who_may_not_add_partitions(
    state: TransactionState | None, producer_id: int, epoch: int, error: type[KafkaError]
) -> None:
    """Unknown ids and other producers; while markers are written nobody (KIP-890)."""
    transaction = None if state is None else standing(state)
    with pytest.raises(error):
        add_partitions(transaction, producer_id, epoch, [ORDERS], client_version=0, now_ms=NOW)


@pytest.mark.parametrize(
    ("state", "producer_id", "epoch", "partition", "error"),
    [
        (None, ID, EPOCH, ORDERS, InvalidProducerIdMapping),
        (S.ONGOING, ID, EPOCH, ORDERS, None),
        (S.ONGOING, ID, EPOCH, ("orders", 1), TransactionAbortable),
        (S.ONGOING, ID, EPOCH - 1, ORDERS, ProducerFenced),
        (S.ONGOING, OTHER_ID, EPOCH, ORDERS, InvalidProducerIdMapping),
        (S.EMPTY, ID, EPOCH, ORDERS, TransactionAbortable),
        (S.COMPLETE_COMMIT, ID, EPOCH, ORDERS, TransactionAbortable),
        (S.PREPARE_COMMIT, ID, EPOCH, ORDERS, ConcurrentTransactions),
    ],
)
def test_verification(
    state: TransactionState | None,
    producer_id: int,
    epoch: int,
    partition: tuple[str, int],
    error: type[KafkaError] | None,
) -> None:
    """A batch may be appended only to a partition of its producer's open transaction."""
    transaction = None if state is None else standing(state)
    if error is None:
        verify_partition(transaction, producer_id, epoch, partition)
        return
    with pytest.raises(error):
        verify_partition(transaction, producer_id, epoch, partition)


def test_a_transaction_times_out_after_its_time() -> None:
    """Strictly later than start and time-out; only while it is open."""
    transaction = standing(S.ONGOING)
    end = transaction.started_ms + transaction.timeout_ms

    assert not transaction.is_timed_out(end)
    assert transaction.is_timed_out(end + 1)
    assert not standing(S.PREPARE_COMMIT).is_timed_out(end + 1)
    assert not standing(S.EMPTY).is_timed_out(end + 1)


@pytest.mark.parametrize("state", list(S)[:6])
def test_an_id_expires_between_transactions_only(state: TransactionState) -> None:
    """Unused for the whole time, and with nothing open."""
    transaction = standing(state)
    at = transaction.updated_ms + 1000

    assert not transaction.is_expired(at - 1, 1000)
    assert transaction.is_expired(at, 1000) == (state not in OPEN_OR_PREPARED)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_fencing_makes_an_epoch_that_nobody_has(version: int) -> None:
    """One epoch up in every version; the record tells by which rules it was ended."""
    fenced = run_fence(standing(S.ONGOING), version=version)

    assert fenced.state is S.PREPARE_ABORT
    assert fenced.producer_epoch == EPOCH + 1
    assert fenced.client_version == version


@pytest.mark.parametrize("state", list(S)[:6])
def test_a_record_brings_the_transaction_back(state: TransactionState) -> None:
    """All but the epoch before, as in Kafka."""
    transaction = standing(state, previous_producer_id=1, next_producer_id=2, last_epoch=6)

    assert Transaction.of(transaction.logged) == transaction._replace(last_epoch=-1)


def test_states_have_the_names_that_tools_print() -> None:
    """Exact spelling: filters are compared with them."""
    assert [state.title for state in S] == [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    ]
