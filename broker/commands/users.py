"""``siltstone users``: lists, creates and removes users, before a broker runs or while it does.

A running broker holds the log directory. With ``--bootstrap-server`` or ``--command-config`` it is
asked to change its users, as ``kafka-configs`` with the entity type ``users`` asks it: SCRAM alone.
"""

import argparse
import getpass
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from siltstone.broker.commands.kafka import scram_users
from siltstone.broker.commands.kafka.broker import Broker, add_connection
from siltstone.broker.commands.kafka.broker import run as run_command
from siltstone.broker.commands.options import read_settings
from siltstone.broker.commands.terminal import fail, write_json, write_lines
from siltstone.broker.security.plain import PLAIN, PLAIN_HASH
from siltstone.broker.security.private_file import PrivateFileError
from siltstone.broker.security.scram import MECHANISMS, make_verifier
from siltstone.broker.security.scram_text import parse_scram
from siltstone.broker.security.users import Credentials, UserStore, copy_of
from siltstone.storage import files
from siltstone.storage.directory.lock import DirectoryLock, DirectoryLocked


def add_users(parser: argparse.ArgumentParser) -> None:
    """Add the options for the changes."""
    parser.add_argument(
        "--add",
        action="append",
        default=[],
        metavar="NAME",
        help="with the password on standard input, for PLAIN and SCRAM; repeatable",
    )
    parser.add_argument(
        "--add-scram",
        action="append",
        default=[],
        metavar="TEXT",
        help="as kafka-storage has it: SCRAM-SHA-256=[name=NAME,password=PASSWORD]; repeatable",
    )
    parser.add_argument("--remove", action="append", default=[], metavar="NAME", help="repeatable")
    add_connection(parser)


def run_users(options: argparse.Namespace) -> int:
    """Change users, then print all of them; return the exit code."""
    if options.bootstrap_server is not None or options.command_config is not None:
        return _run_on_broker(options)
    layers = read_settings(options)
    add, scram, remove = options.add, options.add_scram, options.remove
    directory = Path(layers.server().log_dirs[0]).absolute()
    store = UserStore(directory)
    try:
        if not (add or scram or remove):
            store.load()
        else:
            for each in (*reversed(directory.parents), directory):
                if not each.exists():
                    files.create_folder(each)
            lock = DirectoryLock(directory)
            lock.acquire()
            try:
                store.load()
                store.write(_changed(store.credentials, add, scram, remove))
            finally:
                lock.release()
    except DirectoryLocked as error:
        return fail(f"{error}; or name the running broker by --bootstrap-server")
    except (PrivateFileError, ValueError) as error:
        return fail(str(error))
    except OSError as error:
        return fail(f"{store.path} cannot be written: {error.strerror}")
    _show(store.credentials, as_json=options.json)
    return 0


def _run_on_broker(options: argparse.Namespace) -> int:
    """Have a running broker change users, then print all of them."""
    if options.add_scram:
        return fail("--add-scram is for a broker that is stopped; a running one takes --add")
    try:
        added = {name: _ask_password(name) for name in options.add}
    except ValueError as error:
        return fail(str(error))

    def change(broker: Broker) -> int:
        code = scram_users.change(broker, added, options.remove)
        _print(scram_users.users(broker), as_json=options.json)
        return code

    return run_command(options, change)


def _show(credentials: Credentials, *, as_json: bool) -> None:
    rows = [
        {
            "name": name,
            "mechanisms": [
                {"name": each, "iterations": own[each].iterations} for each in sorted(own)
            ],
        }
        for name, own in sorted(credentials.items())
    ]
    _print(rows, as_json=as_json)


def _print(users: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        write_json({"users": users})
        return
    for user in users:
        shown = ", ".join(f"{each['name']} ({each['iterations']})" for each in user["mechanisms"])
        write_lines([f"{user['name']}: {shown}"])
    if not users:
        sys.stdout.write("there are no users\n")


def _changed(
    credentials: Credentials, add: Sequence[str], scram: Sequence[str], remove: Sequence[str]
) -> Credentials:
    """Return the users after all changes."""
    changed = copy_of(credentials)
    for name in remove:
        if changed.pop(name, None) is None:
            raise ValueError(f"there is no user {name} to remove")
    for text in scram:
        user = parse_scram(text)
        changed.setdefault(user.name, {})[user.mechanism.name] = user.verifier
    for name in add:
        password = _ask_password(name)
        changed[name] = {
            PLAIN: make_verifier(PLAIN_HASH, password),
            **{each.name: make_verifier(each, password) for each in MECHANISMS.values()},
        }
    return changed


def _ask_password(name: str) -> str:
    if not name:
        raise ValueError("a user needs a name")
    if sys.stdin.isatty():
        password = getpass.getpass(f"password of {name}: ")
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise ValueError(f"the password of {name} is empty; give it on the standard input")
    return password
