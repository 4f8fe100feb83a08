"""The keys that sign tokens: a JSON Web Key Set (RFC 7517), which is read repeatedly.

Kafka's RefreshingHttpsJwks and JwksFileVerificationKeyResolver. Only public keys of asymmetric
algorithms are accepted. If a set cannot be read, or has no key, the known keys stay.
"""

import json
import logging
import math
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import jwt

from siltstone.broker.security.oauth.key_sources import SourceError
from siltstone.config.oauth import OAuthSettings
from siltstone.storage import threads
from siltstone.storage.clock import Clock

_logger = logging.getLogger(__name__)

_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_BY_CURVE: Final = {
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA",),
    ("OKP", "Ed448"): ("EdDSA",),
}
ALGORITHMS: Final = frozenset({*_RSA, *(each for row in _BY_CURVE.values() for each in row)})
"""All that are taken: none of them works with a secret that both sides have."""

_PUBLIC: Final = ("kty", "n", "e", "crv", "x", "y")
_LEAST_RSA_BITS: Final = 2048
_MAX_KEYS: Final = 256
_MAX_DOUBLINGS: Final = 32


class Key(NamedTuple):
    """One public key, its name, and the algorithms that may use it."""

    name: str | None
    algorithms: tuple[str, ...]
    key: Any


class Keys:
    """The keys of one listener (any thread).

    Only one thread reads at a time, and not often; the others use the known keys meanwhile.
    """

    def __init__(self, settings: OAuthSettings, clock: Clock, read: Callable[[], bytes]) -> None:
        self._settings = settings
        self._clock = clock
        self._read = read
        self._keys: tuple[Key, ...] = ()
        self._lock = threads.Lock()
        self._is_read_until = -math.inf
        self._not_before = -math.inf  # after a failure, no read before this
        self._search_after = -math.inf  # no read for an unknown key before this
        self._failures = 0

    def load(self) -> None:
        """Read the keys. Blocks.

        Raises:
            SourceError: The keys cannot be read, or the set has no key.
        """
        self._keys = parse_keys(self._read())
        now = self._clock.monotonic()
        self._failures = 0
        self._is_read_until = now + self._settings.refresh_ms / 1000
        self._search_after = now + self._settings.max_backoff_ms / 1000

    def find(self, name: str | None, algorithm: str) -> Any:
        """Return the key of a name if it may be used with an algorithm, else None.

        Without a name, return the only key that may be used with it. Blocks when keys have to be
        read.
        """
        now = self._clock.monotonic()
        if now >= self._is_read_until:
            self.refresh()
        found = self._pick(name, algorithm)
        if found is None and now >= self._search_after:
            self._search_after = now + self._settings.max_backoff_ms / 1000
            self.refresh()
            found = self._pick(name, algorithm)
        return found

    def refresh(self) -> None:
        """Read the keys, unless another thread is reading, or reading failed just now. Blocks."""
        if not self._lock.acquire(blocking=False):
            return
        try:
            if self._clock.monotonic() >= self._not_before:
                self.load()
        except SourceError as error:
            wait_ms = self._settings.backoff_ms << min(self._failures, _MAX_DOUBLINGS)
            wait_ms = min(wait_ms, self._settings.max_backoff_ms)
            self._failures += 1
            self._not_before = self._clock.monotonic() + wait_ms / 1000
            _logger.warning("no new keys for tokens; %d stay; reason=%s", len(self._keys), error)
        finally:
            self._lock.release()

    def _pick(self, name: str | None, algorithm: str) -> Any:
        fitting = [
            each.key
            for each in self._keys
            if algorithm in each.algorithms and (name is None or each.name == name)
        ]
        return fitting[0] if len(fitting) == 1 else None


def verify(token: str, key: Any, algorithm: str) -> bytes | None:
    """Return the claims of a token if the key has signed it by the algorithm, else None."""
    try:
        signed: bytes = jwt.PyJWS().decode(token, key, algorithms=[algorithm])
    except (jwt.PyJWTError, ValueError, TypeError):
        return None
    return signed


def parse_keys(content: bytes) -> tuple[Key, ...]:
    """Return the keys of a set that may sign tokens.

    Raises:
        SourceError: The content is no set of keys, or has no key that may sign tokens.
    """
    try:
        rows = json.loads(content)["keys"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise SourceError("it is no JSON Web Key Set") from error
    if not isinstance(rows, list) or len(rows) > _MAX_KEYS:
        raise SourceError(f"it has no list of at most {_MAX_KEYS} keys")
    keys = tuple(key for row in rows if isinstance(row, dict) for key in _parse(row))
    if not keys:
        raise SourceError("it has no public key that tokens can be signed for")
    return keys


def _parse(row: dict[str, Any]) -> Iterator[Key]:
    """Yield the key of a row, if the key may sign tokens."""
    kind = row.get("kty")
    by_curve = _BY_CURVE.get((str(kind), str(row.get("crv"))), ())
    algorithms: tuple[str, ...] = _RSA if kind == "RSA" else by_curve
    if "alg" in row:
        algorithms = tuple(each for each in algorithms if each == row["alg"])
    name, uses = row.get("kid"), row.get("key_ops", ["verify"])
    is_for_signing = row.get("use", "sig") == "sig" and isinstance(uses, list) and "verify" in uses
    if not algorithms or not is_for_signing or not isinstance(name, str | None):
        return
    try:
        key = jwt.PyJWK({each: row[each] for each in _PUBLIC if each in row}, algorithms[0]).key
    except (jwt.PyJWTError, ValueError, TypeError, AttributeError):
        return
    if kind != "RSA" or key.key_size >= _LEAST_RSA_BITS:
        yield Key(name, algorithms, key)
