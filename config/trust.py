"""Whom a client of ours trusts, and when a certificate is taken: the same on every Python.

From 3.13 on ``ssl.create_default_context`` is strict (RFC 5280) and takes any certificate that is
named as an anchor; before, it is neither. Java takes what is not strict, such as an authority that
``openssl req -x509`` has made without keyUsage, and any anchor that its trust store has: so does
this broker, at its listeners too.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from os import PathLike


def make_client_context(
    authorities: str | PathLike[str] | None = None, *, text: str | None = None
) -> ssl.SSLContext:
    """Return the context by which a client encrypts, TLS 1.2 or newer.

    ``authorities`` is a PEM file of those that are trusted, ``text`` what would be in one; without
    either those of the system are. Blocks.

    Raises:
        OSError: The file cannot be read, or has none (ssl.SSLError is one).
        ValueError: The text is no certificate.
    """
    context = ssl.create_default_context(cafile=authorities, cadata=text)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    judge_as_java(context)
    return context


def judge_as_java(context: ssl.SSLContext) -> None:
    """Have a context take the certificates that Java takes."""
    context.verify_flags &= ~ssl.VerifyFlags.VERIFY_X509_STRICT
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN


def why_untrusted(error: OSError) -> str | None:
    """Return why a peer's certificate was not taken; None if something else failed."""
    if not isinstance(error, ssl.SSLCertVerificationError):
        return None
    return f"its certificate is not trusted ({error.verify_message})"
