"""The settings of one subscription to metrics of clients (KIP-714, Kafka: ClientMetricsConfigs).

The settings are dynamic only: they belong to a resource of the type client metrics, and have no
default.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from siltstone.config.describe import ConfigRow, Synonym, make_row
from siltstone.config.errors import ConfigError
from siltstone.config.keys import Check, Kind, Setting, between, key, settings_of
from siltstone.config.layers import Source, checked
from siltstone.config.values import text_of

MATCHED = (
    "client_instance_id", "client_id", "client_software_name", "client_software_version",
    "client_source_address", "client_source_port",
)  # fmt: skip
"""Labels that choose the clients of a subscription."""

_PAIRS = Check(
    lambda pairs: all(_name(pair) in MATCHED and "=" in pair for pair in pairs),
    f"a list of NAME=EXPRESSION, with names of {', '.join(MATCHED)}",
)

INTERVAL_MS = between(100, 3_600_000)
"""How often clients may send; apart from the type, since Kafka refuses it by another code."""
EXPRESSION = Check(
    lambda text: bool(text) and "=" not in text, "an expression that is not empty and has no ="
)
"""The text that chooses clients, in a subscription that is made now; older ones are obeyed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientMetricsConfig:
    """One subscription: which metrics the matching clients send, and how often."""

    # fmt: off
    metrics: tuple[str, ...] = key((),
        "What the names of the metrics begin with, or * for all of them. Empty: none.",
        kind=Kind.LIST)
    interval_ms: int = key(300_000, "How often clients send their metrics, `INTERVAL_MS`.")
    match: tuple[str, ...] = key((),
        "Which clients: each expression must match the whole of what it names. Empty: all.",
        kind=Kind.LIST, check=_PAIRS)
    # fmt: on

    @property
    def expressions(self) -> dict[str, str]:
        """Return the expressions by the field that they are compared with; the last one counts."""
        return {_name(pair): pair.partition("=")[2].strip() for pair in self.match}


CLIENT_METRICS: dict[str, Setting] = settings_of(ClientMetricsConfig)


def read_client_metrics(own: Mapping[str, str]) -> ClientMetricsConfig:
    """Return the settings that the texts stand for.

    Raises:
        ConfigError: A name is unknown or a value is bad; the error has every fault.
    """
    faults: list[str] = []
    values = {}
    for name, text in own.items():
        setting = CLIENT_METRICS.get(name)
        if setting is None:
            known = ", ".join(CLIENT_METRICS)
            faults.append(f"{name} is no setting of client metrics; there are {known}")
        else:
            values[setting.attribute] = checked(setting, text, "", faults)
    if faults:
        raise ConfigError(faults)
    return ClientMetricsConfig(**values)


def describe_client_metrics(own: Mapping[str, str]) -> list[ConfigRow]:
    """Return every setting of a subscription by name."""
    config = read_client_metrics(own)
    rows = []
    for name, setting in sorted(CLIENT_METRICS.items()):
        value = text_of(setting.kind, getattr(config, setting.attribute))
        is_own = name in own
        synonyms = (Synonym(name, value, Source.CLIENT_METRICS),) if is_own else ()
        rows.append(make_row(setting, value, synonyms, "client metrics" if is_own else "default"))
    return rows


def _name(pair: str) -> str:
    return pair.partition("=")[0].strip()
