"""Clients that speak TLS to a broker in the test's loop."""

import asyncio
import ssl
import warnings

from tests.support.authority import Authority, Pair
from tests.support.running import Caller, Running

LOWEST = "DEFAULT:@SECLEVEL=0"


def trusting(
    authority: Authority,
    pair: Pair | None = None,
    *,
    version: ssl.TLSVersion | None = None,
    ciphers: str = "",
) -> ssl.SSLContext:
    """Return a client's TLS context, which trusts an authority and may have a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(authority.certificate)
    if pair is not None:
        context.load_cert_chain(pair.certificate, pair.key)
    if ciphers:
        context.set_ciphers(ciphers)
    if version is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of refused versions
            context.minimum_version = context.maximum_version = version
    return context


async def connect(home: Running, context: ssl.SSLContext, listener: int = 0) -> Caller:
    """Open a connection to a listener."""
    port = home.listeners[listener].port
    streams = await asyncio.open_connection(
        "127.0.0.1", port, ssl=context, server_hostname="localhost"
    )
    return Caller(home.keep(streams))


def client_hello(context: ssl.SSLContext) -> bytes:
    """Return the first record that a client sends."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    try:
        tls.do_handshake()
    except ssl.SSLWantReadError:
        return outgoing.read()
    raise AssertionError("a handshake without a server")
