"""``siltstone config`` prints the settings of the running broker, or those of a start.

The broker that answers must have our log directories open: another broker may listen at that
address.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from siltstone.broker.commands.asking import Channel, NobodyAnswers, Refusal
from siltstone.broker.commands.options import read_settings, try_settings
from siltstone.broker.commands.terminal import complain, paint, write_json
from siltstone.config.describe import show, show_as_json
from siltstone.config.layers import Layers
from siltstone.protocol.errors import visible

Rows = list[dict[str, Any]]


def add_config(parser: argparse.ArgumentParser) -> None:
    """Add the option that chooses between the running broker and a start."""
    parser.add_argument(
        "--offline",
        action="store_true",
        help="what the next start would take, without asking the running broker",
    )


def run_config(options: argparse.Namespace) -> int:
    """Print every setting with its source; return 0, or 1 if what is stored cannot be read."""
    layers = read_settings(options)
    fault = None
    try:
        rows = _stored(layers) if options.offline else _ask(layers)
    except (NobodyAnswers, Refusal) as error:
        complain(f"{error}; this is what a start would take")
        rows = _stored(layers)
    if isinstance(rows, str):
        fault, rows = rows, list(show_as_json(layers))
    if options.json:
        write_json(rows)
    else:
        for row, line in zip(rows, show(rows), strict=True):
            given = row["source"] != "default"
            shown = visible(line)
            sys.stdout.write((paint(shown, "bold") if given else shown) + "\n")
    if fault is not None:
        complain(fault)
    return 0 if fault is None else 1


def run_check(options: argparse.Namespace) -> int:
    """Print every fault of the settings and of the certificates that they name."""
    layers, faults = try_settings(options)
    warnings = () if layers is None else layers.warnings
    if layers is not None:
        faults += _certificate_faults(layers)
    if options.json:
        told = {"faults": faults, "warnings": warnings}
        write_json(told)
    else:
        sys.stderr.writelines(f"{sentence}\n" for sentence in (*faults, *warnings))
        if not faults:
            sys.stdout.write("the settings are fine\n")
    return 1 if faults else 0


def _certificate_faults(layers: Layers) -> Iterator[str]:
    settings = layers.server().tls_listeners()
    if not settings:
        return
    from siltstone.broker.net.tls.contexts import TlsError, make_endpoint  # noqa: PLC0415  # few encrypt

    for name, each in settings.items():
        try:
            make_endpoint(each)
        except TlsError as error:
            yield f"the listener {name} cannot encrypt: {error}"


def _ask(layers: Layers) -> Rows:
    """Return the settings of the running broker."""
    channel = Channel(layers)
    answer = channel.get("/v1/config")
    try:
        told: dict[str, Any] = json.loads(answer.body)
        rows: Rows = told["settings"]
        theirs = set(told["log_dirs"])
    except (ValueError, KeyError) as error:
        raise Refusal("the broker does not say its settings; it is older than this") from error
    ours = [str(Path(name).absolute()) for name in layers.server().log_dirs]
    if not theirs.intersection(ours):
        raise Refusal(
            f"the broker that answers has the log directory {min(theirs, default='-')} and not "
            f"{ours[0]}"
        )
    return rows


def _stored(layers: Layers) -> Rows | str:
    """Return the settings of a start; without the stored dynamic ones also why they are missing."""
    from siltstone.broker.topics.settings.stored import with_stored  # noqa: PLC0415  # few need it
    from siltstone.storage.directory.catalog import Catalog  # noqa: PLC0415  # likewise
    from siltstone.storage.directory.log_directory import LogDirError  # noqa: PLC0415  # likewise

    catalog = Catalog([Path(name) for name in layers.server().log_dirs])
    try:
        catalog.load()
    except LogDirError as error:
        return f"what was changed while the broker ran is not shown: {error}"
    return list(show_as_json(with_stored(layers, catalog.state)))
