"""Which quota is a client's: the most specific of eight levels, for each kind by itself."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.broker.security.quotas.book import (
    CONNECTION,
    CONSUMER,
    PRODUCER,
    Entity,
    Quotas,
    Share,
    Values,
)

NAMES = st.sampled_from(["a", "b"])
PARTS = st.tuples(
    st.none() | st.just(()) | NAMES.map(lambda name: (name,)),
    st.none() | st.just(()) | NAMES.map(lambda name: (name,)),
)


def entity(user: tuple[str, ...] | None, client: tuple[str, ...] | None) -> Entity:
    """Return an entity: None is no part of it, () the default, else the name."""
    parts = (("user", user), ("client-id", client))
    return tuple((kind, part[0] if part else None) for kind, part in parts if part is not None)


ENTITIES = PARTS.filter(lambda parts: parts != (None, None)).map(lambda parts: entity(*parts))
VALUES: st.SearchStrategy[Values] = st.dictionaries(
    ENTITIES,
    st.dictionaries(
        st.sampled_from([PRODUCER, CONSUMER]), st.integers(1, 99).map(float), min_size=1
    ),
)


def model(values: Values, key: str, user: str, client_id: str) -> Share | None:
    """Return what counts, in other words: of those that fit, the one that says most of the user.

    Of those that say as much of the user, the one that says most of the client id.
    """
    fitting = []
    for parts, own in values.items():
        names = dict(parts)
        fits_user = names.get("user", user) in {user, None}
        fits_client = "client-id" not in names or (
            client_id != "" and names["client-id"] in {client_id, None}
        )
        if key in own and fits_user and fits_client:
            rank = tuple(
                0 if kind not in names else 1 if names[kind] is None else 2
                for kind in ("user", "client-id")
            )
            fitting.append((rank, own[key]))
    if not fitting:
        return None
    (of_user, of_client), limit = max(fitting)
    return Share(user if of_user else "", client_id if of_client else "", limit)


@given(VALUES, st.sampled_from(["a", "b", "c"]), st.sampled_from(["a", "b", "c", ""]))
def test_the_most_specific_quota_counts(values: Values, user: str, client_id: str) -> None:
    """Whatever else is set; and it is shared by those whose names it asks for."""
    quotas = Quotas()
    quotas.replace(values)

    for key in (PRODUCER, CONSUMER):
        assert quotas.find(key, user, client_id) == model(values, key, user, client_id)
    assert quotas.keys == {key for own in values.values() for key in own}


@pytest.mark.parametrize("removed", range(8))
def test_each_level_gives_way_to_the_next(removed: int) -> None:
    """In the order of Kafka's documentation, when those before it do not exist."""
    levels: list[Entity] = [
        (("user", "alice"), ("client-id", "app")),
        (("user", "alice"), ("client-id", None)),
        (("user", "alice"),),
        (("user", None), ("client-id", "app")),
        (("user", None), ("client-id", None)),
        (("user", None),),
        (("client-id", "app"),),
        (("client-id", None),),
    ]
    shared = [("alice", "app"), ("alice", "app"), ("alice", "")] * 2 + [("", "app")] * 2
    quotas = Quotas()
    quotas.replace(
        {each: {PRODUCER: float(place)} for place, each in enumerate(levels) if place >= removed}
    )

    assert quotas.find(PRODUCER, "alice", "app") == (*shared[removed], float(removed))


def test_an_address_has_its_own_rate_or_the_default() -> None:
    """However the address of IPv6 was written."""
    quotas = Quotas()
    quotas.replace({(("ip", "0:0:0:0:0:0:0:1"),): {CONNECTION: 5.0}})
    assert quotas.find_connection_rate("::1") == 5.0
    assert quotas.find_connection_rate("192.0.2.1") is None

    quotas.replace({(("ip", None),): {CONNECTION: 7.0}, (("ip", "::1"),): {CONNECTION: 5.0}})
    assert quotas.find_connection_rate("::1") == 5.0
    assert quotas.find_connection_rate("192.0.2.1") == 7.0
