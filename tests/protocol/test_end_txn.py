"""EndTxn by hand, with kio as the oracle."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader

from protocol.end_txn import API_KEY, encode, parse
from protocol.errors import ProtocolError
from protocol.headers import is_flexible
from tests.support.kio_messages import encode as encode_with_kio
from tests.support.kio_messages import encode_with_unknown_tags, example

VERSIONS = range(6)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("committed", [True, False])
@given(
    transactional_id=st.text(max_size=300),
    producer_id=st.integers(-(1 << 63), (1 << 63) - 1),
    epoch=st.integers(-(1 << 15), (1 << 15) - 1),
)
def test_requests_are_read_as_kio_writes_them(
    version: int, committed: bool, transactional_id: str, producer_id: int, epoch: int
) -> None:
    """Every version, wherever it lies in a buffer."""
    schema: Any = load_request_schema(API_KEY, version)
    body = encode_with_kio(
        schema(
            transactional_id=transactional_id,
            producer_id=producer_id,
            producer_epoch=epoch,
            committed=committed,
        )
    )
    buffer = memoryview(b"\xff" * 3 + body + b"\xff" * 3)

    read = parse(version, buffer, 3, 3 + len(body))

    assert read == (transactional_id, producer_id, epoch, committed)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_cut_anywhere_is_refused(version: int) -> None:
    """No prefix of a request is a request."""
    body = memoryview(encode_with_kio(example(load_request_schema(API_KEY, version))))
    for end in range(len(body)):
        with pytest.raises(ProtocolError):
            parse(version, body, 0, end)


@pytest.mark.parametrize("version", [3, 4, 5])
def test_unknown_tagged_fields_are_skipped(version: int) -> None:
    """A newer client may send them."""
    entity = example(load_request_schema(API_KEY, version))
    plain = memoryview(encode_with_kio(entity))
    tagged = memoryview(encode_with_unknown_tags(entity))

    assert parse(version, tagged, 0, len(tagged)) == parse(version, plain, 0, len(plain))


@pytest.mark.parametrize("version", VERSIONS)
@given(
    code=st.sampled_from([ErrorCode.none, ErrorCode.producer_fenced]),
    producer_id=st.integers(-1, (1 << 63) - 1),
    epoch=st.integers(-1, (1 << 15) - 1),
)
def test_responses_are_what_kio_reads(
    version: int, code: ErrorCode, producer_id: int, epoch: int
) -> None:
    """Only version 5 says how the producer goes on."""
    frame = encode(version, 77, code.value, producer_id, epoch)

    start = 9 if is_flexible(API_KEY, version) else 8
    read: tuple[Any, int] = entity_reader(load_response_schema(API_KEY, version))(frame, start)
    entity, size = read
    assert frame[:8] == (len(frame) - 4).to_bytes(4) + (77).to_bytes(4)
    assert start + size == len(frame)
    assert entity.error_code is code
    if version == 5:
        assert (entity.producer_id, entity.producer_epoch) == (producer_id, epoch)
