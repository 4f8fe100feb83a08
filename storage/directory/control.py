"""How a program on this machine reaches the HTTP port of the broker that has a log directory open.

The broker notes there where it listens and, when it encrypts, which certificate it shows: who may
read the folder knows by that whom it talks to. `SILTSTONE_CA` names the authorities to trust
instead, as for a broker on another machine.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from siltstone.storage import files

if TYPE_CHECKING:
    import ssl

CA_VARIABLE: Final = "SILTSTONE_CA"
"""The variable that names a PEM file of authorities; `--ca` sets it for a command."""
ENCRYPTED: Final = "https://"
"""What stands before an address that encrypts."""


def find_trust(directory: Path | None) -> "ssl.SSLContext":
    """Return what a client encrypts with, and whom it trusts. Blocks.

    Raises:
        OSError: The file of authorities cannot be read, or has none; the text says which.
    """
    import ssl  # noqa: PLC0415  # few brokers encrypt their HTTP port

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    authorities = os.environ.get(CA_VARIABLE, "")
    own = None if directory is None else directory / files.CONTROL_CERTIFICATE
    if authorities:
        try:
            context.load_verify_locations(authorities)
        except OSError as error:  # ssl.SSLError is one
            raise OSError(
                f"{authorities} has no certificates of authorities that can be read "
                f"({getattr(error, 'reason', None) or error.strerror}); name a PEM file"
            ) from error
    elif own is not None and own.exists():
        # This very certificate, whatever names are in it and whoever signed it.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        context.check_hostname = False
        context.load_verify_locations(own)
    else:
        context.load_default_certs()
    return context


def explain(error: OSError) -> str:
    """Return why a connection failed; of a certificate that is not trusted, with what to do."""
    message = getattr(error, "verify_message", None)
    if message is None:
        return str(error)
    return (
        f"its certificate is not trusted ({message}); name a PEM file of the authority that has "
        f"signed it by --ca or {CA_VARIABLE}"
    )


def note_certificate(directory: Path, pem: str | None) -> None:
    """Note the certificate that the HTTP port shows; None: it does not encrypt. Blocks.

    Raises:
        OSError: The directory cannot be written.
    """
    path = directory / files.CONTROL_CERTIFICATE
    if pem is None:
        path.unlink(missing_ok=True)
    else:
        files.replace_file(path, pem.encode(), durable=False)
