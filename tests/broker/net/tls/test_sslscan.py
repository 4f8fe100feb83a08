"""A listener with TLS as sslscan sees it: as docs/security-tls.md promises, and no more."""

import asyncio
import subprocess
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

import pytest

from tests.support.authority import Authority
from tests.support.missing import require
from tests.support.running import running

pytestmark = pytest.mark.slow

NEW: Final = {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}
KINDS: Final = {
    "ECDSA": ("-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"),
    "RSA": ("-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"),
}


def old(kind: str) -> set[str]:
    """Return the suites of TLS 1.2 for a kind of key."""
    suites = ("AES128-GCM-SHA256", "AES256-GCM-SHA384", "CHACHA20-POLY1305")
    return {f"ECDHE-{kind}-{each}" for each in suites}


@pytest.mark.parametrize("kind", KINDS)
async def test_it_finds_what_is_promised(tmp_path: Path, kind: str) -> None:
    """TLS 1.2 and 1.3, suites with forward secrecy, no renegotiation and no compression."""
    sslscan = require("sslscan")
    pair = Authority(tmp_path / "authority").issue("server", kind=KINDS[kind])
    folder = tmp_path / "data"
    folder.mkdir()
    sets = ("listeners=SSL://127.0.0.1:0", f"ssl.keystore.location={pair.store}")
    async with running(folder, *sets) as home:
        address = f"127.0.0.1:{home.listeners[0].port}"
        done = await asyncio.to_thread(
            subprocess.run, [sslscan, "--xml=-", address], capture_output=True, text=True
        )
    found = ET.fromstring(done.stdout)

    served = {
        f"{each.get('type')} {each.get('version')}"
        for each in found.iter("protocol")
        if each.get("enabled") == "1"
    }
    suites = {(each.get("sslversion"), each.get("cipher")) for each in found.iter("cipher")}
    assert len([*found.iter("protocol")]) == 6
    assert served == {"tls 1.2", "tls 1.3"}
    assert {name for version, name in suites if version == "TLSv1.3"} == NEW
    assert {name for version, name in suites if version == "TLSv1.2"} == old(kind)
    assert {version for version, _ in suites} == {"TLSv1.2", "TLSv1.3"}
    flaws = {
        (each.tag, name)
        for each in found.iter()
        for name in ("supported", "secure", "vulnerable")
        if each.get(name) == "1"
    }
    assert flaws == set()
