"""How a program on this machine reaches the HTTP port of the broker that has a log directory open.

The broker writes into the directory the address on which it listens and, if it encrypts, its
certificate. By the certificate a program that may read the folder knows that it talks to this
broker. `SILTSTONE_CA` names the authorities to trust instead, as for a broker on another machine.
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
"""The mark before an address that encrypts."""


def find_trust(directory: Path | None) -> "ssl.SSLContext":
    """Return the context by which a client encrypts, with the authorities that it trusts. Blocks.

    Raises:
        OSError: The file of authorities cannot be read, or has no authority; the text says which.
    """
    from siltstone.config.trust import make_client_context  # noqa: PLC0415  # few encrypt that port

    authorities = os.environ.get(CA_VARIABLE, "")
    own = None if directory is None else directory / files.CONTROL_CERTIFICATE
    if authorities:
        try:
            return make_client_context(authorities)
        except OSError as error:  # ssl.SSLError is one
            raise OSError(
                f"{authorities} has no certificates of authorities that can be read "
                f"({getattr(error, 'reason', None) or error.strerror}); name a PEM file"
            ) from error
    if own is None or not files.exists(own):
        return make_client_context()
    context = make_client_context(own)  # trust exactly this certificate, from any authority
    context.check_hostname = False  # it may have any names in it
    return context


def explain(error: OSError) -> str:
    """Return why a connection failed; if a certificate is not trusted, also what to do."""
    from siltstone.config.trust import why_untrusted  # noqa: PLC0415  # likewise

    untrusted = why_untrusted(error)
    if untrusted is None:
        return str(error)
    return (
        f"{untrusted}; name a PEM file of the authority that has signed it by --ca or {CA_VARIABLE}"
    )


def note_certificate(directory: Path, pem: str | None) -> None:
    """Note the certificate of the HTTP port, None if the port does not encrypt. Blocks.

    Raises:
        OSError: The directory cannot be written.
    """
    path = directory / files.CONTROL_CERTIFICATE
    if pem is None:
        files.unlink(path)
    else:
        files.replace_file(path, pem.encode(), durable=False)
