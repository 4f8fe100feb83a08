"""Request and response headers, with kio as the judge."""

import io
from struct import pack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.schema.index import api_key_map, schema_name_map
from kio.schema.request_header.v1.header import RequestHeader as HeaderV1
from kio.schema.request_header.v2.header import RequestHeader as HeaderV2
from kio.serial import entity_writer

from siltstone.broker.api import APIS, Api
from siltstone.protocol import core
from siltstone.protocol.errors import ProtocolError
from siltstone.protocol.framing import FIRST_FLEXIBLE
from tests.reference import messages as reference
from tests.support.kio_messages import UNKNOWN_TAGS
from tests.support.newer_than_kio import versions_in_kio

BOTH = (core.read_head, reference.read_head)


def is_flexible(api_key: int, api_version: int) -> bool:
    """Tell whether this version of the API has compact lengths and tagged fields."""
    return api_version >= FIRST_FLEXIBLE[api_key]


def served(flexible: bool) -> list[tuple[int, int, int] | None]:
    """Return that Produce is served up to version 9, which is flexible or not."""
    return [(0, 9, 9 if flexible else 10)]


def boundary_versions() -> list[tuple[int, int]]:
    """Return for each API the first flexible version and the one before, as far as kio has them."""
    return [
        (key, version)
        for key, first in FIRST_FLEXIBLE.items()
        if key in api_key_map
        for version in (first - 1, first)
        if version in schema_name_map[api_key_map[key]]
    ]


def written(header_class: Any, client_id: str | None) -> bytes:
    """Return a request header for Produce v9 as kio writes it."""
    header = header_class(
        request_api_key=0, request_api_version=9, correlation_id=-5, client_id=client_id
    )
    buffer = io.BytesIO()
    entity_writer(header_class)(buffer, header)
    return buffer.getvalue()


def test_the_table_of_flexible_versions_is_that_of_the_schemas() -> None:
    """Before and from the first flexible version of every API the header version changes."""
    table = {(key, version): is_flexible(key, version) for key, version in boundary_versions()}

    assert table == {
        (key, version): bool(load_request_schema(key, version).__flexible__)
        for key, version in table
    }
    assert not is_flexible(17, 1)


@given(client_id=st.none() | st.text(max_size=200), flexible=st.booleans())
def test_headers_as_kio_writes_them(client_id: str | None, flexible: bool) -> None:
    """Both header versions are read in place; the body follows them; every cut is refused."""
    header = written(HeaderV2 if flexible else HeaderV1, client_id)
    frame = b"...." + header + b"body"
    end = 4 + len(header)

    for read in BOTH:
        assert read(frame, 4, len(frame), served(flexible)) == (0, 9, -5, client_id, end)
        for cut in range(4, end):
            with pytest.raises(ProtocolError):
                read(frame, 4, cut, served(flexible))


def test_unknown_tagged_fields_of_a_header_are_skipped() -> None:
    """Kio refuses them; the protocol says to ignore them."""
    header = written(HeaderV2, "me")[:-1] + b"\x02" + UNKNOWN_TAGS

    for read in BOTH:
        assert read(header + b"x", 0, len(header) + 1, served(True))[-1] == len(header)
        for cut in range(len(header)):
            with pytest.raises(ProtocolError):
                read(header, 0, cut, served(True))


def test_a_client_id_ends_within_the_frame() -> None:
    """One with a length past it is refused."""
    frame = written(HeaderV1, None)[:-2] + b"\x7f\xff" + b"client"

    for read in BOTH:
        with pytest.raises(ProtocolError):
            read(frame, 0, len(frame), served(False))


@pytest.mark.parametrize("length", [b"\xff\xfe", b"\x80\x00"])
def test_a_client_id_of_less_than_nothing_is_none(length: bytes) -> None:
    """Kafka takes any negative length for null."""
    frame = written(HeaderV1, None)[:-2] + length

    for read in BOTH:
        assert read(frame, 0, len(frame), served(False))[3] is None


def test_a_client_id_becomes_text() -> None:
    """A client id goes into logs and member ids; one in Latin-1 is no reason to refuse a client."""
    frame = written(HeaderV1, "cafe")[:-1] + b"\xe9"

    for read in BOTH:
        assert read(frame, 0, len(frame), served(False))[3] == "caf\ufffd"


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_response_heads_are_those_of_the_schemas(api: Api) -> None:
    """Size, correlation id, and an empty tag section where the response header has version 1."""
    _, response = api.load_messages()
    for version in versions_in_kio(api):
        has_tags = load_response_schema(api.key, version).__header_schema__.__version__ == 1

        frame = response.respond(version, 7, response.struct())

        body = response.write(version, response.struct())
        assert frame == pack(">ii", len(body) + 4 + has_tags, 7) + bytes(has_tags) + body


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_the_tables_say_the_same(api: Api) -> None:
    """The first flexible version stands in two places, since heads come before tables."""
    request, response = api.load_messages()

    assert request.key == response.key == api.key
    assert request.first <= api.versions[0] <= api.versions[-1] <= request.last
    for message in (request, response):
        assert [message.is_flexible(version) for version in api.versions] == [
            is_flexible(api.key, version) for version in api.versions
        ]
