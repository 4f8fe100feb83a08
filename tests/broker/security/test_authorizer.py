"""The authorizer's answers are those of the rules read one by one."""

from ipaddress import ip_address, ip_network
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from siltstone.broker.security import authorizer as authorizer_module
from siltstone.broker.security.acl import (
    Acl,
    AclFilter,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
    check_acl,
    find_host_fault,
)
from siltstone.broker.security.authorizer import Authorizer
from siltstone.broker.security.principals import Principal, parse_principal, parse_super_users

OPERATIONS = [each for each in Operation if each > Operation.ALL]
NAMES = ["*", "a", "ab", "abc", "b", "ba", "hardcode"]
WHO = ["User:alice", "User:bob", "User:*", "Group:alice"]
HOSTS = ["*", "10.0.0.1", "10.0.0.2", "10.0.0.0/31", "10.0.0.2/31", "10.0.0.9/8", "0.0.0.0/0"]
HOSTS += ["10.0.0.0/33", "10.0.0.1/32", "::/0", "2001:db8::/32", "2001:db8::1/128"]
CLIENTS = ["10.0.0.1", "10.0.0.2", "10.0.0.3", "192.0.2.1", "2001:db8::1", "2001:db9::1"]
IMPLIED = {
    Operation.DESCRIBE: {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER},
    Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
}
TYPES = [ResourceType.TOPIC, ResourceType.GROUP]

patterns = st.builds(
    Pattern,
    st.sampled_from(TYPES),
    st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
    st.sampled_from(NAMES),
)
rules = st.builds(
    Acl,
    patterns,
    st.sampled_from(WHO),
    st.sampled_from(HOSTS),
    st.sampled_from([Operation.ALL, *OPERATIONS]),
    st.sampled_from([Permission.DENY, Permission.ALLOW]),
)
questions = st.tuples(
    st.sampled_from(["User:alice", "User:bob", "User:carol", "Group:alice", "User:root"]),
    st.sampled_from(CLIENTS),
    st.sampled_from(OPERATIONS),
    st.sampled_from(TYPES),
    st.sampled_from([*NAMES, "abcd", "c"]),
)


def covers(rule_host: str, client: str) -> bool:
    """Whether a rule's host is about a client, by Python's own networks."""
    if "/" not in rule_host or rule_host == "10.0.0.0/33":
        return rule_host in (client, "*")
    return ip_address(client) in ip_network(rule_host, strict=False)


def decide(
    acls: list[Acl], question: tuple[str, str, Operation, ResourceType, str], *, otherwise: bool
) -> bool:
    """Answer as Kafka's StandardAuthorizerData says it, by looking at every rule."""
    principal, host, operation, kind, name = question
    if principal == "User:root":
        return True
    about = [acl for acl in acls if concerns(acl, kind, name)]
    mine = [
        acl for acl in about if acl.principal in (principal, "User:*") and covers(acl.host, host)
    ]
    denying = {operation, Operation.ALL}
    if any(acl.permission is Permission.DENY and acl.operation in denying for acl in mine):
        return False
    allowing = denying | IMPLIED.get(operation, set())
    if any(acl.permission is Permission.ALLOW and acl.operation in allowing for acl in mine):
        return True
    return otherwise and not about


def concerns(acl: Acl, kind: ResourceType, name: str) -> bool:
    """Whether a rule is about a resource."""
    pattern = acl.pattern
    if pattern.resource_type is not kind:
        return False
    if pattern.pattern_type is PatternType.PREFIXED:
        return name[: len(pattern.name)] == pattern.name
    return pattern.name in ("*", name)


@pytest.mark.slow
@given(
    st.lists(rules, max_size=25),
    st.lists(rules, max_size=10),
    st.lists(questions, min_size=1, max_size=20),
    st.booleans(),
)
@settings(max_examples=300)
def test_answers_are_those_of_the_rules_one_by_one(
    acls: list[Acl],
    gone: list[Acl],
    asked: list[tuple[str, str, Operation, ResourceType, str]],
    otherwise: bool,
) -> None:
    """Before and after rules are removed (CVE-2024-27309: the others stay), and asked twice."""
    authorizer = Authorizer(
        acls, super_users=parse_super_users("User:root"), allows_without_acls=otherwise
    )
    gone = [*gone, *acls[::3]]

    for left in (acls, [acl for acl in acls if acl not in gone]):
        for question in (*asked, *asked):
            expected = decide(left, question, otherwise=otherwise)

            assert authorizer.allows(*question) == expected
        authorizer.remove(gone)
    assert set(authorizer) == {acl for acl in acls if acl not in gone}


@pytest.mark.slow
@given(st.lists(rules, max_size=12), questions)
@settings(max_examples=300)
def test_some_resource_may_be_used_if_no_rule_forbids_all_that_is_allowed(
    acls: list[Acl], question: tuple[str, str, Operation, ResourceType, str]
) -> None:
    """Implied rights count for the name ``hardcode``; else only rules of the operation or ALL."""
    principal, host, operation, kind, _ = question
    authorizer = Authorizer(acls)
    mine = [
        acl
        for acl in acls
        if acl.pattern.resource_type is kind
        and acl.principal in (principal, "User:*")
        and covers(acl.host, host)
        and acl.operation in (operation, Operation.ALL)
    ]
    denied = {acl.pattern for acl in mine if acl.permission is Permission.DENY}
    allowed = [acl.pattern for acl in mine if acl.permission is Permission.ALLOW]
    everything = Pattern(kind, PatternType.LITERAL, "*")

    def is_free(pattern: Pattern) -> bool:
        return pattern not in denied and not any(
            each.pattern_type is PatternType.PREFIXED and pattern.name.startswith(each.name)
            for each in denied
        )

    expected = authorizer.allows(principal, host, operation, kind, "hardcode") or (
        everything not in denied and (everything in allowed or any(map(is_free, allowed)))
    )

    assert authorizer.allows_any(principal, host, operation, kind) == expected


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The hosts that answers have looked up, a list for each table of rules."""
    seen: list[object] = []
    find = authorizer_module._find

    def count(table: authorizer_module._Table, principal: str, hosts: list[Any]) -> int:
        seen.append(hosts)
        return find(table, principal, hosts)

    monkeypatch.setattr(authorizer_module, "_find", count)
    return seen


@pytest.mark.parametrize("name", ["topic-77", "team-77-orders"])
def test_an_answer_costs_the_same_with_ten_thousand_rules(
    looked_at: list[object], name: str
) -> None:
    """The patterns of the name are looked at, twice each, and not the rules."""
    acls = [rule(f"topic-{number}", f"User:{number % 500}") for number in range(5_000)]
    acls += [rule("*", f"User:{number}") for number in range(2_500)]
    acls += [
        rule(f"team-{number}-", "User:*", pattern_type=PatternType.PREFIXED)
        for number in range(2_500)
    ]
    authorizer = Authorizer(acls)
    authorizer.allows("User:a", "h", Operation.READ, ResourceType.TOPIC, name)

    assert len(authorizer) == 10_000
    assert len(looked_at) == 4


def test_an_answer_does_not_cost_more_with_the_lengths_of_prefixes(looked_at: list[object]) -> None:
    """All that begin like the name are looked at for the first of its names, and then no more."""
    authorizer = Authorizer(
        rule("t" * length, pattern_type=PatternType.PREFIXED) for length in range(1, 61)
    )
    question = "User:a", "h", Operation.READ, ResourceType.TOPIC
    answers = {authorizer.allows(*question, "t" * 60 + "first")}
    assert len(looked_at) == 120
    answers |= {authorizer.allows(*question, f"{'t' * 60}{number}") for number in range(1_000)}

    assert len(looked_at) == 120
    assert answers == {True}


def test_an_answer_costs_a_look_up_for_each_length_of_networks(looked_at: list[object]) -> None:
    """However many networks there are; the lengths of the other kind of address cost nothing."""
    networks = [f"10.{number >> 8}.{number & 255}.0/24" for number in range(10_000)]
    others = ["10.0.0.0/8", "192.0.2.0/24", "2001:db8::/32", "::/0"]
    authorizer = Authorizer(rule("t", host=host) for host in networks + others)

    assert len(authorizer) == 10_004
    assert authorizer.allows("User:a", "10.20.3.4", Operation.READ, ResourceType.TOPIC, "t")
    assert [len(hosts) for hosts in looked_at if isinstance(hosts, list)] == [4, 4]


def rule(
    name: str,
    principal: str = "User:a",
    pattern_type: PatternType = PatternType.LITERAL,
    host: str = "*",
) -> Acl:
    """Return a rule that permits reading topics."""
    pattern = Pattern(ResourceType.TOPIC, pattern_type, name)
    return Acl(pattern, principal, host, Operation.READ, Permission.ALLOW)


def test_memory_of_answers_is_bounded() -> None:
    """A stranger that asks for ever new or long names fills no memory."""
    authorizer = Authorizer()

    for number in range(20_050):
        authorizer.allows("User:a", "h", Operation.READ, ResourceType.GROUP, str(number))
    remembered = len(authorizer.find_answers("User:a", "h"))
    authorizer.allows("User:a", "h", Operation.READ, ResourceType.GROUP, "x" * 10_000)
    authorizer.allows("User:b", "h", Operation.READ, ResourceType.GROUP, "x")

    assert 19_000 < remembered <= 20_000
    names = [name for _, _, name in authorizer.find_answers("User:a", "h")]
    assert names == [str(number) for number in range(20_050 - remembered, 20_050)]


def test_few_answers_are_forgotten_at_once() -> None:
    """To forget 20,000 takes as long as a large request; also those of others, one by one."""
    authorizer = Authorizer()
    for number in range(20_000):
        authorizer.allows("User:a", "h", Operation.READ, ResourceType.GROUP, str(number))
    answers = [authorizer.find_answers(f"User:{each}", "h") for each in "ab"]
    counts = []
    for number in range(300):
        authorizer.allows("User:b", "h", Operation.READ, ResourceType.GROUP, str(number))
        counts.append(sum(map(len, answers)))

    assert max(counts) <= 20_000
    assert min(counts) >= 19_900


def test_a_client_that_kept_its_answers_learns_of_a_change() -> None:
    """Also when so many clients have asked that its own were forgotten."""
    authorizer = Authorizer([rule("t")])
    question = "User:a", "h", Operation.READ, ResourceType.TOPIC, "t"
    kept = authorizer.find_answers("User:a", "h")
    allowed = authorizer.allows(*question)
    before = dict(kept)
    for number in range(20_000):
        authorizer.find_answers(f"User:{number}", "h")
    forgotten = dict(kept)
    authorizer.remove([rule("t")])

    assert allowed
    assert before == {question[2:]: True}
    assert (forgotten, kept) == ({}, {})
    assert not authorizer.allows(*question)


def test_the_bits_of_what_is_authorized() -> None:
    """As Metadata and DescribeGroups answer them (KIP-430)."""
    authorizer = Authorizer([rule("t")])
    among = (Operation.READ, Operation.WRITE, Operation.DESCRIBE)

    bits = authorizer.operations("User:a", "h", ResourceType.TOPIC, "t", among)

    assert bits == 1 << Operation.READ | 1 << Operation.DESCRIBE


@pytest.mark.parametrize(
    ("pattern_type", "name", "found"),
    [
        (PatternType.ANY, None, ["ab", "a", "*"]),
        (PatternType.ANY, "ab", ["ab"]),
        (PatternType.LITERAL, "ab", ["ab"]),
        (PatternType.LITERAL, "*", ["*"]),
        (PatternType.PREFIXED, "ab", []),
        (PatternType.PREFIXED, "a", ["a"]),
        (PatternType.MATCH, "ab", ["ab", "a", "*"]),
        (PatternType.MATCH, "ax", ["a", "*"]),
        (PatternType.MATCH, "b", ["*"]),
    ],
)
def test_filters_find_rules_by_pattern(
    pattern_type: PatternType, name: str | None, found: list[str]
) -> None:
    """MATCH finds every rule that a resource of that name is under."""
    authorizer = Authorizer([rule("ab"), rule("a", pattern_type=PatternType.PREFIXED), rule("*")])
    wanted = AclFilter(pattern_type=pattern_type, name=name)

    assert [acl.pattern.name for acl in authorizer.find(wanted)] == found


@pytest.mark.parametrize(
    "other",
    [
        AclFilter(resource_type=ResourceType.GROUP),
        AclFilter(principal="User:b"),
        AclFilter(host="10.0.0.1"),
        AclFilter(operation=Operation.ALL),
        AclFilter(permission=Permission.DENY),
    ],
)
def test_filters_compare_every_part(other: AclFilter) -> None:
    """A rule with another value is not found; ALL is an operation like any other here."""
    assert Authorizer([rule("t")]).find(other) == []


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"principal": "alice"}, "Could not parse principal from `alice`"),
        ({"operation": Operation.ANY}, "Invalid operation ANY"),
        ({"permission": Permission.ANY}, "Invalid permissionType ANY"),
        (
            {"pattern": Pattern(ResourceType.TOPIC, PatternType.LITERAL, "")},
            "Resource name should not be empty",
        ),
        (
            {"pattern": Pattern(ResourceType.ANY, PatternType.LITERAL, "t")},
            "Invalid resourceType ANY",
        ),
        (
            {"pattern": Pattern(ResourceType.TOPIC, PatternType.MATCH, "t")},
            "Invalid patternType MATCH",
        ),
    ],
)
def test_a_rule_that_is_none_is_refused(change: dict[str, Any], fault: str) -> None:
    """In Kafka's words."""
    check_acl(rule("t"))

    with pytest.raises(ValueError, match=fault):
        check_acl(rule("t")._replace(**change))


def test_principals_are_read_and_printed() -> None:
    """A name may have colons and commas, as those of certificates do."""
    assert parse_principal("User:CN=a,O=b:c") == Principal("User", "CN=a,O=b:c")
    assert str(parse_principal("User:a")) == "User:a"
    assert parse_super_users("User:a; User:CN=b,O=c;") == {
        Principal("User", "a"),
        Principal("User", "CN=b,O=c"),
    }
    for text in ("alice", ":alice"):
        with pytest.raises(ValueError, match="principalType:principalName"):
            parse_principal(text)


def test_a_host_of_ipv6_is_one_however_it_is_written() -> None:
    """Java spells addresses out, and rules from Apache Kafka have them so."""
    read = Acl(
        Pattern(ResourceType.TOPIC, PatternType.LITERAL, "t"),
        "User:a",
        "2001:db8:0:0:0:0:0:7",
        Operation.READ,
        Permission.ALLOW,
    )
    authorizer = Authorizer([read])

    assert authorizer.allows("User:a", "2001:db8::7", Operation.READ, ResourceType.TOPIC, "t")
    assert authorizer.allows_any("User:a", "2001:db8::7", Operation.READ, ResourceType.TOPIC)
    assert not authorizer.allows("User:a", "2001:db8::8", Operation.READ, ResourceType.TOPIC, "t")
    assert list(authorizer) == [read]


def reads(host: str, *rule_hosts: str) -> bool:
    """Whether a client may read if rules permit it from some hosts."""
    authorizer = Authorizer(rule("t", host=each) for each in rule_hosts)
    answer = authorizer.allows("User:a", host, Operation.READ, ResourceType.TOPIC, "t")
    assert authorizer.allows_any("User:a", host, Operation.READ, ResourceType.TOPIC) == answer
    return answer


@pytest.mark.parametrize(
    ("network", "inside", "outside"),
    [
        ("10.0.0.0/8", ["10.0.0.0", "10.255.255.255"], ["9.255.255.255", "11.0.0.0", "::a00:1"]),
        ("10.0.0.5/8", ["10.9.9.9"], ["11.0.0.5"]),
        ("10.0.0.0/08", ["10.9.9.9"], ["11.0.0.0"]),
        ("010.0.0.0/8", ["10.9.9.9"], ["8.0.0.1"]),
        ("10.0.0.0/0", ["192.0.2.1", "255.255.255.255"], ["::1"]),
        ("128.0.0.0/1", ["200.0.0.1"], ["127.0.0.1"]),
        ("10.0.0.2/31", ["10.0.0.2", "10.0.0.3"], ["10.0.0.1", "10.0.0.4"]),
        ("10.0.0.1/32", ["10.0.0.1"], ["10.0.0.0", "10.0.0.2"]),
        ("2001:DB8::5/32", ["2001:db8::", "2001:db8:ffff::1"], ["2001:db9::", "32.1.13.184"]),
        ("2001:db8:0:0:0:0:0:7/128", ["2001:db8::7"], ["2001:db8::8"]),
        ("[2001:db8::]/+032", ["2001:db8::7"], ["2001:db9::"]),
        ("::/0", ["::1", "2001:db8::1"], ["10.0.0.1"]),
        ("2001:db8::/-0", ["::1"], ["10.0.0.1"]),
        ("::10.0.0.0/104", ["::10.1.1.1"], ["10.0.0.1"]),
        ("fe80::/64", ["fe80::1%eth0", "fe80::1"], ["fe80:0:0:1::1%eth0"]),
        ("fe80::1%1/64", ["fe80::2%1"], ["fe80:0:0:1::1%1"]),
    ],
)
def test_a_network_is_all_addresses_that_begin_like_it(
    network: str, inside: list[str], outside: list[str]
) -> None:
    """As Apache Kafka 4.4.0 answered (KIP-1276): each kind of address has networks of its own."""
    assert find_host_fault(network) is None
    assert [host for host in inside if not reads(host, network)] == []
    assert [host for host in outside if reads(host, network)] == []


def test_what_a_network_forbids_no_address_gets() -> None:
    """The smaller network does not win, nor does the address; others are served."""
    allowed = [rule("t", host=host) for host in ("*", "10.1.0.0/16", "10.1.2.3")]
    denied = rule("t", host="10.0.0.0/8")._replace(permission=Permission.DENY)
    authorizer = Authorizer([*allowed, denied])
    question = Operation.READ, ResourceType.TOPIC

    assert not authorizer.allows("User:a", "10.1.2.3", *question, "t")
    assert not authorizer.allows_any("User:a", "10.1.2.3", *question)
    assert authorizer.allows("User:a", "11.1.2.3", *question, "t")
    authorizer.remove([denied])
    assert authorizer.allows("User:a", "10.1.2.3", *question, "t")


@pytest.mark.parametrize(
    "host",
    [
        "10.0.0.0/33",
        "10.0.0.0/008",
        "10.0.0.0/+8",
        "10.0.0.0/-1",
        "10.0.0.0/",
        "10.0.0.0/255.0.0.0",
        "10.0.0.0/8/8",
        "10.0.0.0/8,10.1.0.0/16",
        "10.0.0/8",
        "256.0.0.0/8",
        "10.0.0.0:80/8",
        "\u0661\u0660.0.0.0/8",
        "/",
        "/8",
        "*/8",
        "host/8",
        " 10.0.0.0/8",
        "10.0.0.0/8 ",
        "10.0.0.0 /8",
        "10.0.0.0/8\n",
        "2001:db8::/129",
        "2001:db8::/-1",
        "2001:db8::/",
        "2001:db8::/ 32",
        "2001:db8::/32%1",
        "2001:db8::/" + "9" * 5_000,
        "2001:db8:::/32",
        "2001:db8::%/32",
        " 2001:db8::/32",
        "[2001:db8::/32]",
        "[2001:db8::/32",
        "2001:db8::]/32",
        "::ffff:10.0.0.0/8",
        "::ffff:10.0.0.0/104",
        "::ffff:a00:0/104",
    ],
)
def test_a_host_with_a_slash_that_is_no_network_is_no_host(host: str) -> None:
    """As Apache Kafka 4.4.0 answered; a rule that has one all the same is about nobody."""
    fault = find_host_fault(host)

    assert fault is not None
    assert fault.startswith(f"Invalid CIDR notation '{host}': ")
    assert not any(reads(each, host) for each in (*CLIENTS, "10.0.0.0", "::", "2001:db8::"))


def test_a_host_without_a_slash_is_any_text_but_none() -> None:
    """As in Apache Kafka 4.4.0."""
    assert find_host_fault("") == "Host pattern cannot be null or empty"
    assert [
        each for each in ("*", "10.0.0.1", "::1", "localhost", " ") if find_host_fault(each)
    ] == []


def test_networks_that_are_spelled_in_two_ways_are_two_rules() -> None:
    """They are kept and found as they were written: filters compare text."""
    rules = [rule("t", host=host) for host in ("10.0.0.0/8", "10.0.0.5/8")]
    authorizer = Authorizer(rules)

    assert authorizer.find(AclFilter(host="10.0.0.0/8")) == rules[:1]
    assert authorizer.find(AclFilter(host="10.0.0.5")) == []
    authorizer.remove(rules[:1])
    assert list(authorizer) == rules[1:]
    assert authorizer.allows("User:a", "10.9.9.9", Operation.READ, ResourceType.TOPIC, "t")
