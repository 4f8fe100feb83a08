"""Certificates that a test makes for itself, by the openssl command."""

import subprocess
from pathlib import Path
from typing import NamedTuple


class Pair(NamedTuple):
    """A private key and the certificate that belongs to it."""

    key: Path
    certificate: Path
    store: Path
    """Both in one file, the authority's certificate behind them."""


class Authority:
    """An authority that signs certificates, with the extensions that Python 3.13 requires."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self.key = folder / f"{name}.key"
        self.certificate = folder / f"{name}.pem"
        openssl("genpkey", "-algorithm", "EC", *_CURVE, "-out", str(self.key))
        openssl(
            "req", "-x509", "-new", "-key", str(self.key), "-out", str(self.certificate),
            "-days", "30", "-subj", f"/CN={name}",
            "-addext", "basicConstraints=critical,CA:TRUE",
            "-addext", "keyUsage=critical,keyCertSign,cRLSign",
        )  # fmt: skip

    def issue(
        self,
        name: str,
        subject: str = "",
        *,
        days: tuple[str, str] | None = None,
        kind: tuple[str, ...] = ("-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"),
    ) -> Pair:
        """Sign a certificate for localhost; ``days`` are its first and its last moment."""
        at = self._folder
        key, request, certificate = at / f"{name}.key", at / f"{name}.csr", at / f"{name}.pem"
        extensions = at / f"{name}.cnf"
        extensions.write_text(
            "subjectAltName=DNS:localhost,IP:127.0.0.1\n"
            "subjectKeyIdentifier=hash\n"
            "authorityKeyIdentifier=keyid\n"
        )
        openssl("genpkey", *kind, "-out", str(key))
        openssl(
            "req", "-new", "-utf8", "-key", str(key), "-out", str(request),
            "-subj", subject or f"/CN={name}",
        )  # fmt: skip
        if days is None:
            openssl(
                "x509", "-req", "-in", str(request), "-CA", str(self.certificate),
                "-CAkey", str(self.key), "-CAcreateserial", "-out", str(certificate),
                "-days", "10", "-extfile", str(extensions),
            )  # fmt: skip
        else:
            self._sign_with_dates(request, certificate, extensions, days)
        store = at / f"{name}-store.pem"
        store.write_text(key.read_text() + certificate.read_text() + self.certificate.read_text())
        store.chmod(0o600)
        return Pair(key, certificate, store)

    def _sign_with_dates(
        self, request: Path, certificate: Path, extensions: Path, days: tuple[str, str]
    ) -> None:
        at = self._folder
        (at / "index.txt").write_text("")
        (at / "serial").write_text("1000\n")
        config = at / "ca.cnf"
        config.write_text(
            f"[ca]\ndefault_ca=own\n[own]\ndatabase={at}/index.txt\nserial={at}/serial\n"
            f"new_certs_dir={at}\ndefault_md=sha256\npolicy=any\nunique_subject=no\n"
            "[any]\ncommonName=supplied\n"
        )
        openssl(
            "ca", "-batch", "-config", str(config), "-cert", str(self.certificate),
            "-keyfile", str(self.key), "-in", str(request), "-out", str(certificate), "-notext",
            "-startdate", days[0], "-enddate", days[1], "-extfile", str(extensions),
        )  # fmt: skip


_CURVE = ("-pkeyopt", "ec_paramgen_curve:P-256")


def openssl(*arguments: str) -> None:
    """Run the command."""
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)
