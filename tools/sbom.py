"""Prints what an installed broker consists of, as a CycloneDX document, from uv.lock.

``make sbom`` writes it to dist/siltstone.cdx.json: each package that the broker needs at run time,
for tokens too (the extra ``oauth``, which the image has), with its version, and each of its files
in the index with its address and its hash. Only the lock is read, so the same lock gives the same
document.
"""

from __future__ import annotations

import json
import sys
import tomllib
import uuid
from pathlib import Path
from typing import Any, Final

from siltstone import VERSION

LOCK: Final = Path(__file__).parents[1] / "uv.lock"
OWN: Final = "siltstone"
_SPACE: Final = uuid.UUID("6ba7b811-9dad-11d1-80b4-00c04fd430c8")  # of addresses, RFC 9562


def document(lock: str) -> dict[str, Any]:
    """Return the document for the text of a uv.lock."""
    packages = {each["name"]: each for each in tomllib.loads(lock)["package"]}
    own = packages[OWN] | {"version": VERSION}
    needed = [packages[name] for name in sorted(_needed(packages))]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(_SPACE, lock)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": _reference(own),
                "name": OWN,
                "version": own["version"],
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            }
        },
        "components": [_component(each) for each in needed],
        "dependencies": [
            {
                "ref": _reference(each),
                "dependsOn": sorted(_reference(packages[name]) for name in _names(each)),
            }
            for each in (own, *needed)
        ],
    }


def _needed(packages: dict[str, dict[str, Any]]) -> set[str]:
    """Return the names of the broker's dependencies, and of theirs."""
    found: set[str] = set()
    waiting = list(_names(packages[OWN]))
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += _names(packages[name])
    return found


def _names(package: dict[str, Any]) -> list[str]:
    of_image = package.get("optional-dependencies", {}).get("oauth", ())
    return [each["name"] for each in (*package.get("dependencies", ()), *of_image)]


def _reference(package: dict[str, Any]) -> str:
    """Return the package's name in the index, as a package URL."""
    return f"pkg:pypi/{package['name']}@{package['version']}"


def _component(package: dict[str, Any]) -> dict[str, Any]:
    files = [*package.get("wheels", ()), *([package["sdist"]] if "sdist" in package else ())]
    return {
        "type": "library",
        "bom-ref": _reference(package),
        "name": package["name"],
        "version": package["version"],
        "purl": _reference(package),
        "externalReferences": [_file(each) for each in files],
    }


def _file(file: dict[str, Any]) -> dict[str, Any]:
    """Return the address and the hash of a file."""
    kind, _, digest = file["hash"].partition(":")
    if kind != "sha256":
        raise ValueError(f"{file['url']} has a hash of the kind {kind}; run make lock")
    return {
        "type": "distribution",
        "url": file["url"],
        "hashes": [{"alg": "SHA-256", "content": digest}],
    }


if __name__ == "__main__":
    json.dump(document(LOCK.read_text(encoding="utf-8")), sys.stdout, indent=2)
    sys.stdout.write("\n")
