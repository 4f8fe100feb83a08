"""The authorities that our clients trust, and the check of certificates, alike on every Python.

From Python 3.13 on ``ssl.create_default_context`` is strict (RFC 5280), and accepts any certificate
in the file as an anchor; before 3.13 it does neither. Java is not strict: it accepts, for example,
an authority without keyUsage from ``openssl req -x509``. Java also accepts any anchor in its trust
store. This broker does as Java does, at its listeners too.
"""

import ssl
from os import PathLike


def make_client_context(
    authorities: str | PathLike[str] | None = None, *, text: str | None = None
) -> ssl.SSLContext:
    """Return the context by which a client encrypts, TLS 1.2 or newer.

    ``authorities`` is a PEM file of trusted authorities; ``text`` is the content of such a file.
    Without both, the system's authorities are trusted. Blocks.

    Raises:
        OSError: The file cannot be read, or has no authority (ssl.SSLError is an OSError).
        ValueError: ``text`` has no certificate.
    """
    context = ssl.create_default_context(cafile=authorities, cadata=text)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    judge_as_java(context)
    return context


def judge_as_java(context: ssl.SSLContext) -> None:
    """Make a context accept the certificates that Java accepts."""
    context.verify_flags &= ~ssl.VerifyFlags.VERIFY_X509_STRICT
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN


def why_untrusted(error: OSError) -> str | None:
    """Return why a peer's certificate was refused; None if something else failed."""
    if not isinstance(error, ssl.SSLCertVerificationError):
        return None
    return f"its certificate is not trusted ({error.verify_message})"
