"""How a program on this machine reaches the HTTP port of the broker that has a log directory open.

The broker notes in the directory where it listens and, when it encrypts, its certificate: a program
that may read the folder knows by that to which broker it talks. `SILTSTONE_CA` names the
authorities to trust instead, as for a broker on another machine.
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
        OSError: The file of authorities cannot be read, or names no authority; the text says which.
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
    context = make_client_context(own)  # this very one, signed by any authority
    context.check_hostname = False  # and with any names in it
    return context


def explain(error: OSError) -> str:
    """Return why a connection failed; of a certificate that is not trusted, with what to do."""
    from siltstone.config.trust import why_untrusted  # noqa: PLC0415  # likewise

    untrusted = why_untrusted(error)
    if untrusted is None:
        return str(error)
    return (
        f"{untrusted}; name a PEM file of the authority that has signed it by --ca or {CA_VARIABLE}"
    )


def note_certificate(directory: Path, pem: str | None) -> None:
    """Note the certificate that the HTTP port shows; None: it does not encrypt. Blocks.

    Raises:
        OSError: The directory cannot be written.
    """
    path = directory / files.CONTROL_CERTIFICATE
    if pem is None:
        files.unlink(path)
    else:
        files.replace_file(path, pem.encode(), durable=False)
