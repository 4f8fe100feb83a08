"""What `siltstone config` prints."""

from siltstone.config.describe import show, show_as_json
from siltstone.config.load import load


def test_every_value_has_its_place() -> None:
    """Each line is a setting, its value and where that stands; secrets are hidden."""
    environ = {"SILTSTONE_LOG_SEGMENT_BYTES": "2000000"}

    layers = load(None, environ, ["num.partitions=4", "rsm.config.key=secret"])
    lines = list(show(show_as_json(layers)))

    assert "log.segment.bytes = 2000000  (SILTSTONE_LOG_SEGMENT_BYTES)" in lines
    assert "num.partitions = 4  (--set)" in lines
    assert "log.retention.ms = (none)  (default)" in lines
    assert "fetch.max.bytes = 57671680  (default)" in lines
    assert "rsm.config.key = (hidden)  (--set)" in lines
    assert "secret" not in "".join(lines)
