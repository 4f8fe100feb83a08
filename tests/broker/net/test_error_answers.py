"""Answers that are nothing but an error: every API and version has one, if it has codes at all."""

from typing import Any

import pytest
from kio.index import load_request_schema

from siltstone.broker.api import APIS, BY_KEY, Api
from siltstone.broker.net.faults import make_error_answer
from siltstone.protocol.errors import ErrorCode
from siltstone.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from siltstone.protocol.messages.metadata import MetadataRequest
from tests.support.kio_messages import encode, example
from tests.support.newer_than_kio import versions_in_kio

CODE = ErrorCode.not_leader_or_follower
VERSIONS = [(api, version) for api in APIS for version in versions_in_kio(api)]


def read_example(api: Api, version: int) -> Any:
    """Return a request that has at least an element in each of its arrays."""
    data = encode(example(load_request_schema(api.key, version)))
    return api.load_messages()[0].read(version, memoryview(data), 0, len(data))[0]


@pytest.mark.parametrize(
    ("api", "version"), VERSIONS, ids=lambda each: each.name if isinstance(each, Api) else None
)
def test_each_version_can_answer_with_an_error(api: Api, version: int) -> None:
    """It has the code, can be written, and has no other."""
    response = api.load_messages()[1]

    answer = make_error_answer(response, version, read_example(api, version), CODE)

    errors: list[int] = []
    response.respond(version, 1, answer, errors)
    assert errors
    assert set(errors) == {CODE}


def test_elements_are_named_as_in_the_request() -> None:
    """A client finds its partition by topic and index."""
    api = BY_KEY[0]
    request = read_example(api, 9)

    answer = make_error_answer(api.load_messages()[1], 9, request, CODE)

    assert [
        (topic.name, [each.index for each in topic.partition_responses])
        for topic in answer.responses
    ] == [
        (topic.name, [each.index for each in topic.partition_data]) for topic in request.topic_data
    ]


def test_elements_that_are_names() -> None:
    """Of DescribeGroups, which has strings in the request and structures in the answer."""
    api = BY_KEY[15]
    request = read_example(api, 5)

    answer = make_error_answer(api.load_messages()[1], 5, request, CODE)

    assert [each.group_id for each in answer.groups] == list(request.groups)


def test_of_each_element_instead_of_the_whole() -> None:
    """Fetch has a code of its own, which clients read in another way than those of partitions."""
    api = BY_KEY[1]
    request = read_example(api, 12)

    answer = make_error_answer(api.load_messages()[1], 12, request, CODE, of_each=True)

    assert answer.error_code == 0
    assert {each.error_code for topic in answer.responses for each in topic.partitions} == {CODE}
    assert [topic.topic for topic in answer.responses] == [each.topic for each in request.topics]


def test_innermost_of_all() -> None:
    """OffsetFetch has groups, which have a code of their own, and partitions in them."""
    api = BY_KEY[9]
    request = read_example(api, 8)

    answer = make_error_answer(api.load_messages()[1], 8, request, CODE, of_each=True)

    assert [each.error_code for each in answer.groups] == [0] * len(request.groups)
    partitions = [
        each for group in answer.groups for topic in group.topics for each in topic.partitions
    ]
    assert {each.error_code for each in partitions} == {CODE}


def test_nothing_to_refuse() -> None:
    """A request that names nothing has no place for a code, where the whole has none either."""
    metadata, add = BY_KEY[3].load_messages()[1], BY_KEY[24].load_messages()[1]

    assert make_error_answer(metadata, 9, MetadataRequest(topics=None), CODE) is None
    assert make_error_answer(add, 0, AddPartitionsToTxnRequest(), CODE) is None
