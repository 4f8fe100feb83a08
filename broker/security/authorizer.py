"""Decides whether a client may do something, as Kafka's StandardAuthorizer does.

A rule that forbids wins over a rule that permits. A rule that permits READ, WRITE, DELETE or ALTER
permits DESCRIBE too, and a rule that permits ALTER_CONFIGS permits DESCRIBE_CONFIGS; a rule that
forbids one of these operations forbids nothing else. If there is no rule for a resource,
``allow.everyone.if.no.acl.found`` decides.

The rules of a pattern are kept as bits by principal and host, and the patterns by name. An answer
costs a few look-ups, however many rules there are: of the literal name, of ``*``, and of the
longest rule prefix that the name begins with. A prefix has a link to the next shorter one that the
name begins with (``prefixes.py``). Of each pattern the client's address and ``*`` are looked up,
and the address's network of each length that a rule has (KIP-1276). Two things are remembered until
a rule changes: each answer to a client, and the rights that a prefix and the shorter ones together
allow and deny that client.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from typing import Final, TypeAlias

from siltstone.broker.security.acl import (
    WILDCARD,
    Acl,
    AclFilter,
    Network,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
    find_network,
    read_network,
)
from siltstone.broker.security.prefixes import Prefixes
from siltstone.broker.security.principals import EVERYBODY, Principal

_EVERYBODY: Final = str(EVERYBODY)
_Host: TypeAlias = str | Network
_Table: TypeAlias = dict[str, dict[_Host, int]]
Answers: TypeAlias = dict[tuple[int, int, str], bool]
"""Whether a client may do something, by operation, resource type and name."""

_MAX_REMEMBERED: Final = 20_000
_FORGOTTEN: Final = 100
_MAX_NAME: Final = 256
"""The most characters of a name whose answer is remembered: longer ones could fill the memory."""

_IMPLYING: Final[dict[int, int]] = {
    Operation.DESCRIBE: sum(
        1 << each for each in (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER)
    ),
    Operation.DESCRIBE_CONFIGS: 1 << Operation.ALTER_CONFIGS,
}
"""The bits of operations that, when they are permitted, permit another operation, too."""
_HARD_CODED: Final = "hardcode"
"""The name by which Kafka finds out whether somebody may do something with any resource."""


class _Rights:
    """The rules of one pattern: a bit for each operation, by principal and host."""

    __slots__ = ("allowed", "denied")

    def __init__(self, acls: Iterable[Acl]) -> None:
        self.allowed: _Table = {}
        self.denied: _Table = {}
        for acl in acls:
            table = self.allowed if acl.permission == Permission.ALLOW else self.denied
            hosts = table.setdefault(acl.principal, {})
            host = _canonical(acl.host)
            bits = -1 if acl.operation == Operation.ALL else 1 << acl.operation
            hosts[host] = hosts.get(host, 0) | bits


@lru_cache(maxsize=1024)
def _canonical(host: str) -> _Host:
    """Return a rule's host as clients' addresses are looked up: Java writes IPv6 without ``::``."""
    if "/" in host:
        return read_network(host) or host
    if ":" not in host:
        return host
    from ipaddress import ip_address  # noqa: PLC0415  # few rules have such a host

    try:
        return str(ip_address(host))
    except ValueError:
        return host


def _find(table: _Table, principal: str, hosts: Iterable[_Host]) -> int:
    """Return a client's bits: those of its principal and of all, for each of its hosts."""
    bits = 0
    for who in (principal, _EVERYBODY):
        found = table.get(who)
        if found is not None:
            for host in hosts:
                bits |= found.get(host, 0)
    return bits


class Authorizer:
    """The rules in force, and their answers (loop only).

    Invariants: ``_rights`` has an entry for each pattern of ``_acls`` and for no other;
    ``_prefixes`` has the prefixed ones of each resource type; ``_lengths`` has the sizes and
    lengths of all networks of rules, and perhaps of removed rules; ``_remembered`` holds answers by
    these rules; ``_of_prefixes`` holds what all rules of a prefix allow and deny a client.
    """

    def __init__(
        self,
        acls: Iterable[Acl] = (),
        *,
        super_users: frozenset[Principal] = frozenset(),
        allows_without_acls: bool = False,
    ) -> None:
        self._super_users = frozenset(map(str, super_users))
        self._allows_without_acls = allows_without_acls
        self._acls: dict[Pattern, dict[Acl, None]] = {}
        self._rights: dict[tuple[int, int, str], _Rights] = {}
        self._prefixes: dict[int, Prefixes] = {}
        self._lengths: dict[tuple[int, int], None] = {}
        self._remembered: dict[tuple[str, str], Answers] = {}
        self._remembered_count = 0
        self._of_prefixes: dict[tuple[str, str, int, str], tuple[int, int]] = {}
        self.change_count = 0  # how often rules have changed
        self.add(acls)

    def __len__(self) -> int:
        """Return how many rules there are."""
        return sum(map(len, self._acls.values()))

    def __contains__(self, acl: Acl) -> bool:
        """Return whether a rule is in force."""
        return acl in self._acls.get(acl.pattern, ())

    def __iter__(self) -> Iterator[Acl]:
        """Yield the rules, by pattern in the order in which the patterns came."""
        for acls in self._acls.values():
            yield from acls

    def add(self, acls: Iterable[Acl]) -> None:
        """Add rules; a rule that exists already is not added again."""
        changed = set()
        for acl in acls:
            known = self._acls.get(acl.pattern)
            if known is None:
                known = self._acls[acl.pattern] = {}
                if acl.pattern.pattern_type == PatternType.PREFIXED:
                    prefixes = self._prefixes.setdefault(acl.pattern.resource_type, Prefixes())
                    prefixes.add(acl.pattern.name)
            known[acl] = None
            changed.add(acl.pattern)
            host = _canonical(acl.host)
            if not isinstance(host, str):
                self._lengths[host[:2]] = None
        self._renew(changed)

    def remove(self, acls: Iterable[Acl]) -> None:
        """Remove rules; a rule that does not exist is ignored."""
        changed = set()
        for acl in acls:
            known = self._acls.get(acl.pattern)
            if known is None or acl not in known:
                continue
            del known[acl]
            changed.add(acl.pattern)
            if not known:
                del self._acls[acl.pattern]
                if acl.pattern.pattern_type == PatternType.PREFIXED:
                    self._prefixes[acl.pattern.resource_type].remove(acl.pattern.name)
        self._renew(changed)

    def find(self, wanted: AclFilter) -> list[Acl]:
        """Return the rules that pass a filter."""
        return [acl for acl in self if wanted.matches(acl)]

    def allows(
        self, principal: str, host: str, operation: int, resource_type: int, name: str
    ) -> bool:
        """Return whether a client may do an operation; ``principal`` is a `Principal` as text."""
        question = operation, resource_type, name
        answers = self.find_answers(principal, host)
        answer = answers.get(question)
        if answer is None:
            answer = self._decide(principal, host, operation, resource_type, name)
            if len(name) <= _MAX_NAME:
                if self._remembered_count >= _MAX_REMEMBERED:
                    self._forget_oldest(answers)
                answers[question] = answer
                self._remembered_count += 1
        return answer

    def find_answers(self, principal: str, host: str) -> Answers:
        """Return the remembered answers for a client; they are emptied when rules change."""
        answers = self._remembered.get((principal, host))
        if answers is None:
            if len(self._remembered) >= _MAX_REMEMBERED:
                self._forget_answers()
            answers = self._remembered[principal, host] = {}
        return answers

    def _forget_oldest(self, answers: Answers) -> None:
        """Forget the oldest answers of a client, or, if it has none, of the first that has some.

        Forgets `_FORGOTTEN` answers at most: forgetting all answers at once takes too long.
        """
        answers = answers or next(filter(None, self._remembered.values()))
        oldest = list(islice(answers, _FORGOTTEN))
        for question in oldest:
            del answers[question]
        self._remembered_count -= len(oldest)

    def _forget_answers(self) -> None:
        """Forget all answers; the dicts that clients hold are emptied."""
        for answers in self._remembered.values():
            answers.clear()
        self._remembered.clear()
        self._remembered_count = 0

    def allows_any(self, principal: str, host: str, operation: int, resource_type: int) -> bool:
        """Return whether a client may do an operation with any resource of a type, existing or not.

        This takes two steps, as in Kafka's Authorizer.authorizeByResourceType. The first asks about
        a resource named ``hardcode``: implied rights count, so READ on ``*`` gives DESCRIBE. In the
        second only rules of the operation itself, or of ALL, count: one literal or prefix that such
        a rule permits is enough, unless another such rule forbids all of it.
        """
        if self.allows(principal, host, operation, resource_type, _HARD_CODED):
            return True
        bit = 1 << operation
        hosts = self._find_hosts(host)
        allowed: list[Pattern] = []
        denied: set[Pattern] = set()
        for pattern in self._acls:
            if pattern.resource_type == resource_type:
                rights = self._rights[pattern]
                if _find(rights.allowed, principal, hosts) & bit:
                    allowed.append(pattern)
                if _find(rights.denied, principal, hosts) & bit:
                    denied.add(pattern)
        kind = ResourceType(resource_type)
        everything = Pattern(kind, PatternType.LITERAL, WILDCARD)
        if everything in denied:
            return False
        if everything in allowed:
            return True
        return any(not _is_covered(pattern, denied) for pattern in allowed)

    def operations(
        self, principal: str, host: str, resource_type: int, name: str, among: Iterable[int]
    ) -> int:
        """Return a bit for each operation that a client may do with a resource (KIP-430)."""
        return sum(
            1 << operation
            for operation in among
            if self.allows(principal, host, operation, resource_type, name)
        )

    def _decide(
        self, principal: str, host: str, operation: int, resource_type: int, name: str
    ) -> bool:
        if principal in self._super_users:
            return True
        bit = 1 << operation
        hosts = self._find_hosts(host)
        is_found = False
        allowed = 0
        for literal in (name,) if name == WILDCARD else (name, WILDCARD):
            rights = self._rights.get((resource_type, PatternType.LITERAL, literal))
            if rights is not None:
                is_found = True
                if _find(rights.denied, principal, hosts) & bit:
                    return False
                allowed |= _find(rights.allowed, principal, hosts)
        prefixes = self._prefixes.get(resource_type)
        prefix = None if prefixes is None else prefixes.find_longest(name)
        if prefix is not None:
            is_found = True
            also_allowed, denied = self._find_of_prefix(principal, host, resource_type, prefix)
            if denied & bit:
                return False
            allowed |= also_allowed
        is_allowed = bool(allowed & (bit | _IMPLYING.get(operation, 0)))
        return is_allowed or (self._allows_without_acls and not is_found)

    def _find_of_prefix(
        self, principal: str, host: str, resource_type: int, prefix: str
    ) -> tuple[int, int]:
        """Return what a prefix, and all shorter prefixes of it, allow and deny a client."""
        key = principal, host, resource_type, prefix
        found = self._of_prefixes.get(key)
        if found is None:
            allowed = denied = 0
            hosts = self._find_hosts(host)
            for each in self._prefixes[resource_type].walk_up(prefix):
                rights = self._rights[resource_type, PatternType.PREFIXED, each]
                allowed |= _find(rights.allowed, principal, hosts)
                denied |= _find(rights.denied, principal, hosts)
            if len(self._of_prefixes) >= _MAX_REMEMBERED:
                self._of_prefixes.clear()
            found = self._of_prefixes[key] = allowed, denied
        return found

    def _find_hosts(self, host: str) -> list[_Host]:
        """Return the hosts of rules that are about a client: its own, all, and its networks."""
        hosts: list[_Host] = [host, WILDCARD]
        if self._lengths:
            from ipaddress import ip_address  # noqa: PLC0415  # few rules have networks

            with suppress(ValueError):
                address = ip_address(host)
                size, number = address.max_prefixlen, int(address)
                hosts += (find_network(*each, number) for each in self._lengths if each[0] == size)
        return hosts

    def _renew(self, changed: Iterable[Pattern]) -> None:
        for pattern in changed:
            acls = self._acls.get(pattern)
            if acls is None:
                self._rights.pop(pattern, None)
            else:
                self._rights[pattern] = _Rights(acls)
        self.change_count += 1
        for answers in self._remembered.values():
            answers.clear()
        self._remembered_count = 0
        self._of_prefixes.clear()


def _is_covered(pattern: Pattern, denied: set[Pattern]) -> bool:
    """Return whether all that a pattern permits is forbidden by one rule."""
    if pattern in denied:
        return True
    kind, name = pattern.resource_type, pattern.name
    return any(
        Pattern(kind, PatternType.PREFIXED, name[:length]) in denied
        for length in range(1, len(name) + 1)
    )
