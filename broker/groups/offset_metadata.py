"""The limit for the length of a committed offset's metadata."""

from siltstone.config.server import ServerConfig

MAX_CHARACTERS = 8191
"""As many characters always fit the int16 length of a record's field."""

_FIRST_PAIR = "\U00010000"


def is_too_long(metadata: str, limits: ServerConfig) -> bool:
    """Tell whether metadata has more characters, as Java counts, than `offset.metadata.max.bytes`.

    Java counts a character above U+FFFF as two.
    """
    max_bytes = min(limits.offset_metadata_max_bytes, MAX_CHARACTERS)
    length = len(metadata)
    if length <= max_bytes and not metadata.isascii():
        length += sum(each >= _FIRST_PAIR for each in metadata)
    return length > max_bytes
