"""Rights to ask under /api/, and the answers to nonsense."""

import json

import pytest

from siltstone.broker.http.api.questions import (
    BadQuestion,
    Question,
    answering,
    is_foreign,
    written,
)
from siltstone.broker.http.values import HttpRequest, HttpResponse


def request(query: str = "", **headers: str) -> HttpRequest:
    """Return a request with headers in lower case."""
    return HttpRequest(
        method="GET",
        path="/api/topics",
        query=query,
        headers={
            name.replace("_", "-").encode(): value.encode() for name, value in headers.items()
        },
    )


async def text_of(response: HttpResponse) -> str:
    """Return the body of an answer, in one or in pieces."""
    if isinstance(response.body, bytes):
        return response.body.decode()
    return b"".join([piece async for piece in response.body]).decode()


@pytest.mark.parametrize(
    ("headers", "foreign"),
    [
        ({}, False),
        ({"host": "localhost:9464", "origin": "http://localhost:9464"}, False),
        ({"host": "LOCALHOST:9464", "origin": "https://localhost:9464"}, False),
        ({"host": "localhost:9464", "origin": "http://localhost:8000"}, True),
        ({"host": "localhost:9464", "origin": "http://evil.example"}, True),
        ({"host": "localhost:9464", "origin": "null"}, True),
        ({"host": "localhost:9464", "sec_fetch_site": "cross-site"}, True),
        ({"host": "localhost:9464", "sec_fetch_site": "same-site"}, True),
        ({"host": "localhost:9464", "sec_fetch_site": "same-origin"}, False),
        ({"host": "localhost:9464", "sec_fetch_site": "none"}, False),
    ],
)
async def test_pages_of_other_sites_are_refused(headers: dict[str, str], *, foreign: bool) -> None:
    """By Origin, by Host, and by what a browser says of itself; programs say none of it."""
    asked: list[HttpRequest] = []

    async def answer(given: HttpRequest) -> dict[str, object]:
        asked.append(given)
        return {}

    response = await answering(answer)(request(**headers))

    assert is_foreign(request(**headers).headers) == foreign
    assert response.status == (403 if foreign else 200)
    assert bool(asked) != foreign
    told = dict(response.headers)
    assert told["X-Content-Type-Options"] == "nosniff"
    assert told["Referrer-Policy"] == "no-referrer"
    assert told["Content-Security-Policy"] == "default-src 'none'; frame-ancestors 'none'"


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("order=1", "/api/topics takes limit, q, sort, and not 'order'"),
        ("q=a&q=b", "/api/topics was asked with q twice"),
        ("limit=many", "/api/topics: limit is 'many'; write a number from 1 to 9"),
        ("limit=10", "/api/topics: limit is '10'; write a number from 1 to 9"),
        ("limit=" + "9" * 5000, "write a number from 1 to 9"),
        ("limit=%D9%A3", "write a number from 1 to 9"),
        ("sort=colour", "/api/topics: sort is 'colour'; it is one of name, size"),
        ("sort=" + "x" * 5000, "sort is '" + "x" * 100 + "'"),
    ],
)
async def test_nonsense_is_answered_with_a_sentence(query: str, sentence: str) -> None:
    """400, what is wrong and what would be right; what was sent is cut short."""

    async def answer(given: HttpRequest) -> dict[str, object]:
        question = Question(given, ("q", "sort", "limit"))
        question.one_of("sort", ("name", "size"))
        return {"limit": question.number("limit", 5, 1, 9)}

    response = await answering(answer)(request(query))

    assert response.status == 400
    assert sentence in await text_of(response)
    assert len(await text_of(response)) < 300


def test_what_must_be_given() -> None:
    """A name that is missing or empty."""
    with pytest.raises(BadQuestion, match=r"/api/topics wants \?name="):
        Question(request("name="), ("name",)).wanted("name")


async def test_an_answer_in_pieces_is_one_value() -> None:
    """Long lists are cut between their elements, and what comes out is JSON all the same."""
    value = {"a": 1, "none": [], "rows": [{"n": each, "s": 'é"<'} for each in range(20_000)]}

    pieces = [piece async for piece in written(value)]

    assert len(pieces) > 1
    assert json.loads(b"".join(pieces)) == value
