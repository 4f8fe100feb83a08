"""Java's key stores and trust stores of the type PKCS12, as the PEM that everything else reads.

`cryptography` opens them. It comes with tokens (the extra ``oauth``) and is imported by the first
store, since PEM needs none of it. (Java: sun.security.pkcs12.PKCS12KeyStore.)
"""

from __future__ import annotations


class StoreError(Exception):
    """A store cannot be opened; the text ends a sentence that begins with its name."""


def read_store(data: bytes, password: str | None) -> str:
    """Return what a PKCS12 store holds as PEM: its key, the key's certificates, all others.

    The key in the text is not encrypted.

    Raises:
        LookupError: `cryptography` is not installed.
        StoreError: The password is wrong, or it is no such store.
    """
    try:
        from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415  # few need it
            Encoding,
            NoEncryption,
            PrivateFormat,
            pkcs12,
        )
    except ImportError as error:
        raise LookupError("cryptography is not installed") from error
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415  # likewise

    try:
        store = pkcs12.load_pkcs12(data, None if password is None else password.encode())
    except ValueError as error:
        raise StoreError("it is no PKCS12, or its password is another") from error
    except UnsupportedAlgorithm as error:
        raise StoreError(f"it is encrypted by what is not read: {error}") from error
    parts = [each.certificate for each in (store.cert, *store.additional_certs) if each is not None]
    written = [each.public_bytes(Encoding.PEM) for each in parts]
    if store.key is not None:
        form = Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
        written.insert(0, store.key.private_bytes(*form))
    return b"".join(written).decode("ascii")
