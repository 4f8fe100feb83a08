"""Runs libFuzzer (by atheris, which ``make atheris`` unpacks) from the corpus of valid requests."""

import hashlib
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import atheris

MAX_BYTES = 4096


def find(test: Callable[[bytes], None], seeds: Iterable[bytes], folder: Path) -> None:
    """Search for inputs on which ``test`` raises, from the seeds and what earlier runs found.

    They are kept in ``folder``, those that fail too. It ends the process, with 0 if all pass.
    """
    corpus = folder / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for seed in seeds:
        corpus.joinpath(hashlib.sha1(seed).hexdigest()).write_bytes(seed)
    options = (f"-max_len={MAX_BYTES}", f"-artifact_prefix={folder}/", *sys.argv[2:])
    # A file among the arguments is an input that failed: that one alone is tried again.
    inputs = () if any(Path(each).is_file() for each in sys.argv[2:]) else (str(corpus),)
    atheris.Setup([sys.argv[0], *options, *inputs], test)
    atheris.Fuzz()
