"""The cost of ten thousand ACLs for a small produce."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from bench.brokers import PEER, START_SECONDS, Broker, make_broker, port_of
from bench.cases import PARTITIONS, Pace, Result, produce_small, wait_for_first
from bench.comparison import Expected
from bench.connection import Connection, part, request_class

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from bench.load import Load

_CREATE_ACLS: Final = 30
_ALL, _TOPIC, _CLUSTER, _LITERAL, _PREFIXED, _DENY, _ALLOW = 2, 2, 4, 3, 4, 2, 3
_AT_ONCE: Final = 500
_ROUNDS: Final = 6
_EVERYBODY: Final = "User:ANONYMOUS"
_ASKED: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
}
_NOT_YET: Final = {**_ASKED, "super.users": _EVERYBODY}


@dataclass(frozen=True, slots=True, kw_only=True)
class ManyRules:
    """Produce of 100 B over 8 connections without an authorizer, then with one and its rules.

    Half of the rules are of other clients for the same topic, a tenth of these refuse; the others
    are of other topics, by name and by prefix.
    """

    name: str = "produce 100 B, 8x1, 10,000 ACLs"
    rules: int = 10_000
    expected: Mapping[str, Expected] = field(
        default_factory=lambda: {"CPU, of none x": Expected(1.05, is_ratio=False)}
    )

    def measure(self, load: Load, broker_name: str, folder: Path, pace: Pace) -> Result:
        """Measure two brokers in turn: the least that a request has cost of several short rounds.

        What others do on the machine meanwhile adds to a round, and never takes away from one.
        """
        plain = make_broker(broker_name, folder / "without")
        judged = make_broker(broker_name, folder / "with", _NOT_YET)
        judged.start(START_SECONDS)
        try:
            self._make_rules(judged)
            judged.stop()
            del judged.settings["super.users"]
            for broker in (plain, judged):
                broker.prepare()
                wait_for_first(load, broker, broker.launch(), "ordinary", range(PARTITIONS))
                warm = pace.warm_peer if broker_name == PEER else pace.warm_ours
                produce_small(load, broker, "ordinary", 0, warm)
            rounds = [
                [
                    produce_small(load, broker, "ordinary", 0.2, pace.measure / 2)
                    for broker in (plain, judged)
                ]
                for _ in range(_ROUNDS)
            ]
        finally:
            plain.close()
            judged.close()
        without, with_rules = (
            min((pair[place] for pair in rounds), key=_cpu) for place in range(2)
        )
        return {
            "requests/s without": without["rps"],
            "requests/s": with_rules["rps"],
            "p99 us": with_rules["p99_us"],
            "CPU us/request": _cpu(with_rules),
            "CPU, of none x": _cpu(with_rules) / _cpu(without),
        }

    def _make_rules(self, broker: Broker) -> None:
        kind = request_class(_CREATE_ACLS, 3)
        connection = Connection(port_of(broker))
        try:
            rules = [*self._rules(part(kind, "AclCreation"))]
            for at in range(0, len(rules), _AT_ONCE):
                answer = connection.ask(kind(creations=tuple(rules[at : at + _AT_ONCE])))
                if any(each.error_code for each in answer.results):
                    raise RuntimeError(f"rules were refused: {answer}")
        finally:
            connection.close()

    def _rules(self, kind: Any) -> Iterator[Any]:
        def rule(resource: int, name: str, pattern: int, who: str, permission: int) -> Any:
            return kind(
                resource_type=resource,
                resource_name=name,
                resource_pattern_type=pattern,
                principal=who,
                host="*",
                operation=_ALL,
                permission_type=permission,
            )

        yield rule(_TOPIC, "ordinary", _LITERAL, _EVERYBODY, _ALLOW)
        yield rule(_CLUSTER, "kafka-cluster", _LITERAL, _EVERYBODY, _ALLOW)
        for number in range(self.rules - 2):
            who = f"User:user-{number}"
            if number % 2:
                permission = _ALLOW if number % 20 != 1 else _DENY
                yield rule(_TOPIC, "ordinary", _LITERAL, who, permission)
            else:
                pattern = _LITERAL if number % 4 else _PREFIXED
                yield rule(_TOPIC, f"other-{number}", pattern, who, _ALLOW)


def _cpu(result: Result) -> float:
    return result["broker_cpu_seconds"] * 1e6 / result["requests"]
