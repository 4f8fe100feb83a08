"""The list of what the broker consists of names all of it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tools import sbom

ROOT = Path(__file__).parents[2]


def locked() -> dict[str, tuple[str, set[str]]]:
    """Return what pip installs into the image: versions and hashes by name."""
    found = {}
    text = (ROOT / "docker" / "requirements.lock").read_text(encoding="utf-8")
    for line in filter(None, text.replace("\\\n", "").splitlines()):
        requirement, *hashes = line.split(" --hash=sha256:")
        name, version = requirement.partition(";")[0].strip().split("==")
        found[name] = (version, {each.strip() for each in hashes})
    return found


def test_it_names_every_locked_dependency() -> None:
    """With its version, and the hash of each of its files: no more and no less."""
    made = sbom.document(sbom.LOCK.read_text(encoding="utf-8"))

    named = {
        each["name"]: (
            each["version"],
            {
                digest["content"]
                for file in each["externalReferences"]
                for digest in file["hashes"]
                if digest["alg"] == "SHA-256"
            },
        )
        for each in made["components"]
    }
    assert len(named) > 9
    assert named == locked()


def test_dependencies_refer_to_what_is_named() -> None:
    """Each component and the broker itself has a line; each is reached from the broker."""
    made = sbom.document(sbom.LOCK.read_text(encoding="utf-8"))
    own = made["metadata"]["component"]["bom-ref"]
    lines = {each["ref"]: each["dependsOn"] for each in made["dependencies"]}
    reached, waiting = set(), [own]
    while waiting:
        reached.add(at := waiting.pop())
        waiting += [each for each in lines[at] if each not in reached]

    assert set(lines) == {own} | {each["bom-ref"] for each in made["components"]}
    assert reached == set(lines)
    assert [each["purl"] for each in made["components"]] == [
        f"pkg:pypi/{each['name']}@{each['version']}" for each in made["components"]
    ]


def test_the_same_lock_gives_the_same_document() -> None:
    """So that two releases can be compared; another lock has another serial number."""
    command = [sys.executable, "-m", "tools.sbom"]
    once, again = (
        subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout for _ in range(2)
    )
    text = sbom.LOCK.read_text(encoding="utf-8")

    assert once == again
    assert json.loads(once) == sbom.document(text)
    assert sbom.document(f"{text}\n")["serialNumber"] != json.loads(once)["serialNumber"]


def test_a_hash_of_another_kind_is_refused() -> None:
    """Rather than written down as what it is not."""
    text = sbom.LOCK.read_text(encoding="utf-8").replace('hash = "sha256:', 'hash = "md5:')

    with pytest.raises(ValueError, match="hash of the kind md5"):
        sbom.document(text)
