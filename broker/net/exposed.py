"""Warns at the start of listeners that strangers can reach without encryption or login."""

import logging
from collections.abc import Iterator

from siltstone.config.listeners import is_loopback
from siltstone.config.server import ServerConfig
from siltstone.config.tls import HTTP

_logger = logging.getLogger(__name__)


def warn_of_exposed(server: ServerConfig) -> None:
    """Log a warning for each listener on an open address that lacks protection."""
    for warning in find_exposed(server):
        _logger.warning("%s", warning)


def find_exposed(server: ServerConfig) -> Iterator[str]:
    """Yield a sentence for each listener that is not on loopback and lacks protection."""
    tls = server.tls_listeners()
    for listener in server.bound_listeners:
        if is_loopback(listener.host):
            continue
        asks = listener.protocol.startswith("SASL_") or (
            listener.name in tls and tls[listener.name].ssl_client_auth == "required"
        )
        missing = _missing(is_encrypted=listener.name in tls, asks=asks)
        if missing:
            yield (
                f"listener {listener} is not on loopback and has {missing}; set "
                f"listener.security.protocol.map={listener.name}:{_wanted(asks=asks)}, or listen "
                "on 127.0.0.1"
            )
    host, port = server.http_address
    if is_loopback(host):
        return
    asks = (
        server.http_refuses_strangers
        or server.http_security_protocol.startswith("SASL_")
        or (HTTP in tls and tls[HTTP].ssl_client_auth == "required")
    )
    missing = _missing(is_encrypted=HTTP in tls, asks=asks)
    if missing:
        yield (
            f"http.listener {host}:{port} is not on loopback and has {missing} for readers; "
            f"set http.security.protocol={_wanted(asks=asks)}, or listen on 127.0.0.1"
        )


def _missing(*, is_encrypted: bool, asks: bool) -> str:
    lacks = ([] if is_encrypted else ["no encryption"]) + ([] if asks else ["no logins"])
    return " and ".join(lacks)


def _wanted(*, asks: bool) -> str:
    return "SSL or SASL_SSL" if asks else "SASL_SSL"
