"""The errors that end a start or a change of settings."""

from collections.abc import Iterable


class ConfigError(Exception):
    """Settings are refused; `faults` has a sentence for every fault."""

    def __init__(self, faults: Iterable[str]) -> None:
        self.faults = tuple(faults)
        super().__init__("; ".join(self.faults))


class NotAlterableError(ConfigError):
    """A change of settings that need a restart was requested while the broker runs."""


class StartError(Exception):
    """The broker cannot start; the text says why and what to do."""
