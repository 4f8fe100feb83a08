"""Reading the settings again while the broker runs: SIGHUP, `siltstone reload` and `diff`."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from siltstone.config.errors import ConfigError
from siltstone.config.load import load_again
from siltstone.config.reloading import Plan, make_plan

if TYPE_CHECKING:
    from siltstone.broker.net.tls.endpoints import Endpoints
    from siltstone.broker.process.io import IoThreads
    from siltstone.broker.topics.settings.in_force import BrokerSettings
    from siltstone.config.layers import Layers

log = logging.getLogger(__name__)


async def plan_reload(settings: BrokerSettings, io: IoThreads) -> Plan:
    """Return what a reload would do now (loop only); files are read on an io thread.

    Raises:
        ConfigError: With every fault; a reload would change nothing.
    """
    while True:
        layers = settings.layers
        plan = await io.run(_plan, layers)
        if settings.layers is layers:  # else somebody changed a dynamic value meanwhile
            return plan


async def reload(
    settings: BrokerSettings, io: IoThreads, certificates: Endpoints | None = None
) -> Plan:
    """Put in force what may change while the broker runs, and name what needs a restart.

    Keys and certificates are read again from the files that the broker started with.

    Raises:
        ConfigError: With every fault; nothing has changed.
    """
    try:
        made = None if certificates is None else await certificates.make()
        plan = await plan_reload(settings, io)
    except ConfigError as error:
        for fault in error.faults:
            # TRY400: a value that somebody gave, not a fault of ours.
            log.error("settings are not reloaded, nothing has changed: %s", fault)  # noqa: TRY400
        raise
    if certificates is not None and made is not None:
        certificates.take(made)
    known = set(settings.layers.warnings)
    await settings.reload(plan.layers)  # in the turn in which the plan was found to be right
    for warning in plan.layers.warnings:
        if warning not in known:
            log.warning("%s", warning)
    for name, value, source, wins, winner, winner_source in plan.shadowed:
        log.info(
            "setting has no effect, a dynamic value wins name=%s value=%s source=%r "
            "winner=%s winner_value=%s winner_source=%r",
            name,
            value,
            source,
            wins,
            winner,
            winner_source,
        )
    for name, old, new, source in plan.restart:
        log.warning(
            "setting changes at the next start name=%s now=%s then=%s source=%r",
            name,
            old,
            new,
            source,
        )
    log.info("settings reloaded changed=%d restart=%d", len(plan.now), len(plan.restart))
    return plan


def _plan(layers: Layers) -> Plan:
    return make_plan(layers, load_again(layers))
