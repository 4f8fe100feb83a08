"""Saves and restores as JSON the state that clients may change besides topics and groups.

So all tests that share a broker find the same state: no test sees a quota or setting of another.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from siltstone.broker.process.first_use import OnFirstUse
from siltstone.broker.security.acl_store import decode_acl, encode_acl
from siltstone.broker.security.quotas.store import decode_quotas, encode_quotas
from siltstone.broker.security.security import Security
from siltstone.broker.security.users import decode_users, encode_users
from siltstone.broker.topics.registry import TopicRegistry
from siltstone.broker.topics.settings.in_force import BrokerSettings

if TYPE_CHECKING:
    from siltstone.broker.coordinators import Coordinators

    Settings = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TrialState:
    """Settings, ACLs, users, quotas and open transactions (loop only)."""

    settings: BrokerSettings
    topics: TopicRegistry
    security: Security
    coordinators: OnFirstUse[Coordinators]

    def tell(self) -> dict[str, Any]:
        """Return the current state, for `put_back`."""
        layers = self.settings.layers
        users, quotas = self.security.users.built, self.security.quotas.built
        return {
            "cluster": dict(layers.cluster),
            "broker": dict(layers.broker),
            "topics": {name: dict(each.overrides) for name, each in self.topics.topics.items()},
            "groups": {name: dict(own) for name, own in self.settings.group_overrides.items()},
            "client_metrics": {
                name: dict(own) for name, own in self.settings.client_metrics.items()
            },
            "acls": sorted(map(encode_acl, self.security.authorizer or ())),
            "users": {} if users is None else encode_users(users.credentials),
            "quotas": [] if quotas is None else encode_quotas(quotas.values),
            "transactions": self._list_open(),
        }

    async def put_back(self, told: Mapping[str, Any]) -> None:
        """Restore a state that `tell` returned. Topics are neither created nor deleted.

        Raises:
            ValueError: It is not from `tell` (or KeyError, TypeError, AttributeError).
            KafkaError: The disk fails, or a setting is refused.
        """
        now = self.tell()
        changed = {name for name, value in now.items() if value != told[name]}
        if changed & {"cluster", "broker"}:
            await self.settings.alter(cluster=told["cluster"], broker=told["broker"])
        for name, own in told["topics"].items():
            topic = self.topics.topics.get(name)
            if topic is not None and topic.overrides != own:
                await self.topics.alter(topic, own)
        if "groups" in changed:
            await _each_that_differs(now["groups"], told["groups"], self.settings.alter_group)
        if "client_metrics" in changed:
            alter = self.settings.alter_client_metrics
            await _each_that_differs(now["client_metrics"], told["client_metrics"], alter)
        if "acls" in changed and self.security.acls is not None:
            await self.security.acls.replace(map(decode_acl, told["acls"]))
        if "users" in changed:
            await self.security.writer.get().change(_replacing(decode_users(told["users"])))
        if "quotas" in changed:
            quotas = decode_quotas(told["quotas"])
            await self.security.quota_writer.get().change(_replacing(quotas))
        if "transactions" in changed and self.coordinators.built is not None:
            await self.coordinators.built.transactions.abort_open(told["transactions"])

    def _list_open(self) -> list[str]:
        built = self.coordinators.built
        return [] if built is None else sorted(built.transactions.list_open())


def _replacing(wanted: dict[Any, Any]) -> Callable[[dict[Any, Any]], None]:
    """Return an edit that replaces all values of a draft."""

    def edit(draft: dict[Any, Any]) -> None:
        draft.clear()
        draft.update(wanted)

    return edit


async def _each_that_differs(
    now: Mapping[str, Settings],
    told: Mapping[str, Settings],
    alter: Callable[[str, Settings], Awaitable[None]],
) -> None:
    for name in now.keys() | told.keys():
        if now.get(name, {}) != told.get(name, {}):
            await alter(name, told.get(name, {}))
