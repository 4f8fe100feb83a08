"""The errors that end a start or a change of settings."""

from collections.abc import Iterable


class ConfigError(Exception):
    """Settings that cannot be taken: every fault in `faults`, a sentence each."""

    def __init__(self, faults: Iterable[str]) -> None:
        self.faults = tuple(faults)
        super().__init__("; ".join(self.faults))


class NotAlterableError(ConfigError):
    """Settings that need a restart were to be changed while the broker runs."""


class StartError(Exception):
    """The broker cannot start; the text says what is in the way and what to do."""
