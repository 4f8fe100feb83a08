"""InitProducerId: a new id for a client without a transactional id; and what is refused."""

from datetime import timedelta
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from siltstone.storage.directory.catalog import CatalogState
from tests.support.ask import ask
from tests.support.kio_messages import request
from tests.support.services import ServicesOnDisk

KEY = 22
LONG = timedelta(milliseconds=2**31 - 1)


async def _ask(
    home: ServicesOnDisk,
    transactional_id: str | None = None,
    *,
    limit: timedelta = LONG,
    producer: tuple[int, int] = (-1, -1),
    version: int = 5,
) -> Any:
    named = {"producer_id": producer[0], "producer_epoch": producer[1]}
    wanted = request(KEY, 5, transactional_id=transactional_id, transaction_timeout=limit, **named)
    return await ask(home, KEY, wanted, version)


@pytest.mark.parametrize("version", range(6))
async def test_every_producer_gets_another_id(home: ServicesOnDisk, version: int) -> None:
    """With epoch 0."""
    answers = [await _ask(home, version=version) for _ in range(3)]

    assert {each.error_code for each in answers} == {ErrorCode.none}
    assert len({each.producer_id for each in answers}) == 3
    assert {each.producer_epoch for each in answers} == {0}


@pytest.mark.parametrize(
    ("limit", "producer"),
    [(LONG, (-1, -1)), (timedelta(0), (-1, -1)), (timedelta(milliseconds=-5), (5, 3))],
)
async def test_time_out_and_old_id_do_not_matter(
    home: ServicesOnDisk, limit: timedelta, producer: tuple[int, int]
) -> None:
    """Checking the time-out would stop every Java producer."""
    answer = await _ask(home, limit=limit, producer=producer)

    assert (answer.error_code, answer.producer_epoch) == (ErrorCode.none, 0)
    assert answer.producer_id not in producer


@pytest.mark.parametrize(
    ("transactional_id", "producer", "code"),
    [
        (None, (5, -1), ErrorCode.invalid_request),
        (None, (-1, 5), ErrorCode.invalid_request),
        ("", (-1, -1), ErrorCode.invalid_request),
        ("payments", (-1, -1), ErrorCode.invalid_transaction_timeout),
    ],
)
async def test_refusals(
    home: ServicesOnDisk, transactional_id: str | None, producer: tuple[int, int], code: ErrorCode
) -> None:
    """None of them is one that a client tries again."""
    answer = await _ask(home, transactional_id, producer=producer)

    assert answer.error_code is code
    assert not answer.error_code.retriable
    assert (answer.producer_id, answer.producer_epoch) == (-1, -1)


async def test_an_id_that_cannot_be_kept_is_not_given(
    home: ServicesOnDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It might be given again after a restart; the client tries again."""

    def write(_state: CatalogState) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(home.catalog, "write", write)
        refused = await _ask(home)

    assert refused.error_code is ErrorCode.kafka_storage_error
    assert (await _ask(home)).error_code is ErrorCode.none
