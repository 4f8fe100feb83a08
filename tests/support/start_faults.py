"""The reasons why a broker with some settings does not start."""

import pytest

from siltstone.config.errors import ConfigError
from siltstone.config.load import load


def faults_of(*sets: str) -> tuple[str, ...]:
    """Return the faults of a start with settings like those of ``--set``."""
    with pytest.raises(ConfigError) as caught:
        load(None, {}, sets)
    return caught.value.faults
