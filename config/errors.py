"""The faults of settings, reported all at once."""

from collections.abc import Iterable


class ConfigError(Exception):
    """Settings that cannot be taken: every fault in `faults`, a sentence each."""

    def __init__(self, faults: Iterable[str]) -> None:
        self.faults = tuple(faults)
        super().__init__("; ".join(self.faults))


class NotAlterableError(ConfigError):
    """Settings that need a restart were to be changed while the broker runs."""
