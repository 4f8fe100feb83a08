"""The levels of Kafka's features that are in force (KIP-584), as clients read them in ApiVersions.

The level of ``transaction.version`` decides how producers end transactions (KIP-890). The level of
``group.version`` decides whether groups may use the protocol of KIP-848, that of ``share.version``
whether there are share groups (KIP-932), and from 2 on dead letters (KIP-1191). That of
``streams.version`` decides about groups of Kafka Streams (KIP-1071). The catalogue keeps the
levels.
"""

import logging
from collections.abc import Mapping, Sequence
from enum import IntEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from siltstone.broker.process.tasks import OneByOne
from siltstone.broker.topics.catalog_writer import CatalogWriter
from siltstone.protocol.errors import FeatureUpdateFailed, InvalidUpdateVersion, KafkaError
from siltstone.storage.directory.catalog import CatalogState

_logger = logging.getLogger(__name__)


class Range(NamedTuple):
    """The levels of a feature that this broker knows, and the default level."""

    lowest: int
    highest: int
    default: int


ELIGIBLE_LEADERS: Final = "eligible.leader.replicas.version"
"""With it brokers agree on ``min.insync.replicas``; see `broker.topics.eligible_leaders`."""
SUPPORTED: Final[Mapping[str, Range]] = MappingProxyType(
    {
        ELIGIBLE_LEADERS: Range(0, 1, 1),
        "group.version": Range(0, 1, 1),
        "metadata.version": Range(7, 33, 33),
        "share.version": Range(0, 2, 2),
        "streams.version": Range(0, 1, 1),
        "transaction.version": Range(0, 2, 2),
    }
)
_ABSENT: Final[Mapping[str, Range]] = MappingProxyType(
    {
        "kraft.version": Range(0, 1, 1),
    }
)
"""Features of a release that are not here. Clients do not see them; the upgrade of a whole
release names them, and changes nothing of them."""
_FIXED: Final = frozenset({"metadata.version", *_ABSENT})
"""Features that have no meaning on one node, and keep their level."""


class UpgradeType(IntEnum):
    """The direction in which a level may move."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


_UPGRADE_TYPES: Final = frozenset(UpgradeType)


class Update(NamedTuple):
    """One feature and its wanted level."""

    feature: str
    level: int
    upgrade_type: int


class Features:
    """The levels in force (loop only); ``epoch`` grows with each change."""

    def __init__(self, catalog: CatalogWriter) -> None:
        self._catalog = catalog
        self._changes = OneByOne("features", KafkaError)

    @property
    def epoch(self) -> int:
        """Return the number of the last change of levels, which clients compare."""
        return self._catalog.state.features_epoch

    def level(self, feature: str) -> int:
        """Return the level of a feature that has a range; 0 is off."""
        chosen = self._catalog.state.features.get(feature)
        return (SUPPORTED.get(feature) or _ABSENT[feature]).default if chosen is None else chosen

    async def update(self, updates: Sequence[Update], *, validate_only: bool) -> None:
        """Change all of the levels or none; if a feature is named twice, its last update counts.

        Raises:
            InvalidUpdateVersion: A feature does not exist or may not have that level, or the
                direction does not exist.
            FeatureUpdateFailed: This feature's level never changes here.
            KafkaStorageError: The catalogue could not be written.
        """
        await self._changes.make(self._update(updates, validate_only=validate_only))

    async def close(self) -> None:
        """Wait until every change that was begun has ended."""
        await self._changes.finish()

    async def _update(self, updates: Sequence[Update], *, validate_only: bool) -> None:
        last = {update.feature: update for update in updates}
        for update in last.values():
            self._check(update)
        changed = {
            update.feature: update.level
            for update in last.values()
            if update.level != self.level(update.feature)
        }
        if validate_only or not changed:
            return

        def change(state: CatalogState) -> None:
            state.features = {**state.features, **changed}
            state.features_epoch += 1

        await self._catalog.commit(change)
        for feature, level in changed.items():
            _logger.info("feature level changed feature=%s level=%d", feature, level)

    def _check(self, update: Update) -> None:
        feature, level, _ = update
        reason = self._find_fault(update)
        if reason is not None:
            raise InvalidUpdateVersion(
                f"Invalid update version {level} for feature {feature}. {reason}"
            )
        if level != self.level(feature) and feature in _FIXED:
            raise FeatureUpdateFailed(f"{feature} keeps its level on a single broker")

    def _find_fault(self, update: Update) -> str | None:
        """Return why a feature may not have a level, in Kafka's words."""
        feature, level, upgrade_type = update
        known = SUPPORTED.get(feature) or _ABSENT.get(feature)
        lowest, highest = (level, level) if known is None else known[:2]
        is_upgrade = upgrade_type == UpgradeType.UPGRADE
        current = level if known is None else self.level(feature)
        faults = {
            "The controller does not support the given upgrade type.": (
                upgrade_type not in _UPGRADE_TYPES
            ),
            "A feature version cannot be less than 0.": level < 0,
            "This broker does not support this feature.": known is None,
            f"This broker only supports versions {lowest}-{highest}": (
                not lowest <= level <= highest
            ),
            "Can't downgrade the version of this feature without setting the upgrade type to "
            "either safe or unsafe downgrade.": level < current and is_upgrade,
            "Can't downgrade to a newer version.": level > current and not is_upgrade,
        }
        return next((reason for reason, is_there in faults.items() if is_there), None)
