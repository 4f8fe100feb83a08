"""The table of commands: the command line on one screen, in the order of its help.

Completion and manual are derived from it, too. A command is named by its module in
``broker.commands``, which has ``run_NAME(options)`` and, if the command has arguments of its own,
``add_NAME(parser)``. The module is imported only when its command is used.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from siltstone.broker.commands.terminal import CommandFailed, fail

if TYPE_CHECKING:
    import argparse


class Command(NamedTuple):
    """One row.

    ``asks_broker`` says that the command may ask a running broker over HTTP or HTTPS.
    """

    name: str
    words: str
    module: str
    examples: tuple[str, ...]
    has_settings: bool = True
    asks_broker: bool = True
    json_words: str = "print JSON"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Import the command and add its own arguments to those that every command has."""
        add = getattr(self._load(), f"add_{self._function}", None)
        if add is not None:
            add(parser)

    def run(self, options: argparse.Namespace) -> int:
        """Run the command and return the exit code; if it failed, print why."""
        run: Callable[[argparse.Namespace], int] = getattr(self._load(), f"run_{self._function}")
        try:
            return run(options)
        except CommandFailed as error:
            return fail(error.advice)
        except UnicodeEncodeError as error:
            # Names go to a broker as UTF-8; a word of the command line may have any bytes.
            return fail(f"{error.object!r} is not UTF-8, which a name must be; check its spelling")

    @property
    def _function(self) -> str:
        return self.name.replace("-", "_")

    def _load(self) -> Any:
        return import_module(f"siltstone.broker.commands.{self.module}")


# fmt: off
COMMANDS = (
    Command("serve", "run the broker in the foreground until SIGTERM", "serve",
            ("serve --config server.yaml",
             "serve --set log.dirs=/var/lib/siltstone --log-level warning"),
            asks_broker=False, json_words="write log lines as JSON, as --log-format json does"),
    Command("config", "print every setting in force and its source, dynamic ones too", "config",
            ("config",
             "config --offline --config server.yaml",
             "config --json --set log.dirs=/var/lib/siltstone"),
            asks_broker=False),
    Command("check", "report every fault of the settings; start nothing", "config",
            ("check --config server.properties", "check --json --config server.yaml"),
            asks_broker=False),
    Command("health", "ask a running broker whether it is ready", "health",
            ("health", "health --timeout 4 --set http.listener=127.0.0.1:9464")),
    Command("doctor",
            "try data folders, listeners and advertised addresses; say which clients will fail",
            "doctor",
            ("doctor", "doctor --config server.yaml")),
    Command("reload", "have the broker read its settings again, as SIGHUP does", "reload",
            ("reload", "reload --set log.dirs=/var/lib/siltstone")),
    Command("diff", "print what a reload would change now, and a restart later", "reload",
            ("diff", "diff --json")),
    Command("explain",
            "say why partitions are or are not compacted, and what a pass would do", "cleaner",
            ("explain", "explain orders-3 --dry-run", "explain --failed --json"),
            json_words="print codes and numbers"),
    Command("clean", "have a topic compacted now, whatever its ratio", "cleaner",
            ("clean orders --wait", "clean orders-3 --force", "clean orders --roll --wait")),
    Command("history", "print the passes of the cleaner", "cleaner",
            ("history orders", "history --json"),
            json_words="one line of JSON each, with receipts"),
    Command("verify",
            "check all files of all topics, and the cleaner's receipts; the broker is stopped",
            "verify",
            ("verify --set log.dirs=/var/lib/siltstone", "verify orders --json"),
            asks_broker=False),
    Command("pins", "show the pins of segment files, and what only they keep on the disk", "pins",
            ("pins", "pins --release 0f3c")),
    Command("backup", "copy all data of a running broker, as they are at one moment", "backup",
            ("backup /var/backups/siltstone-monday", "backup --config server.yaml monday --json")),
    Command("topics", "list, describe, create, delete or alter topics", "kafka.topics",
            ("topics",
             "topics describe orders",
             "topics create orders -p 6 -c cleanup.policy=compact",
             "topics alter orders -c retention.ms=3600000 --unset segment.ms",
             "topics delete orders")),
    Command("groups", "list or describe groups with their lag, delete them, or set their offsets",
            "kafka.groups",
            ("groups", "groups describe billing", "groups delete billing",
             "groups reset billing --to start --topic orders --dry-run",
             "groups reset billing --to @2026-11-23T12:00:00")),
    Command("produce", "produce a record of each line of the input", "kafka.produce",
            ("produce orders",
             "produce customers -k : -H source=import",
             "produce customers -k : --tombstones -z zstd")),
    Command("consume", "print the records of topics, up to their end or on and on", "kafka.consume",
            ("consume orders",
             "consume orders -o -10 -f '%k: %v\\n'",
             "consume orders -p 3 -o 1200 -n 5 --json",
             "consume orders -o end --follow",
             "consume orders -o @2026-11-23T12:00:00")),
    Command("acls", "list, add or remove ACLs", "kafka.acls",
            ("acls", "acls --topic orders",
             "acls add --allow User:alice --operation read --topic orders --group billing",
             "acls remove --allow User:alice --topic orders")),
    Command("quotas", "show or set quotas of users, clients and addresses", "kafka.quotas",
            ("quotas", "quotas set --user alice --quota producer_byte_rate=1048576",
             "quotas set --client '<default>' --unset request_percentage")),
    Command("configs", "show or set dynamic settings of brokers, groups and loggers",
            "kafka.configs",
            ("configs", "configs set -c log.cleaner.threads=2",
             "configs set --group billing -c consumer.session.timeout.ms=30000")),
    Command("users", "show the users, make or remove some; of a running broker by -b", "users",
            ("users",
             "users --add alice --config server.yaml",
             "users --add-scram 'SCRAM-SHA-256=[name=alice,password=alice-secret]'",
             "users --add alice -b 127.0.0.1:9092 --command-config admin.properties")),
    Command("dump-log", "print and check segment, index, snapshot and checkpoint files", "dump_log",
            ("dump-log siltstone-data/orders-0",
             "dump-log --print-data --json orders-0/00000000000000000000.log",
             "dump-log --offsets 1000-1999 --deep-iteration siltstone-data/orders-0",
             "dump-log --print-data --follow siltstone-data/__consumer_offsets-12"),
            has_settings=False, asks_broker=False),
    Command("completion", "print the completion of this command line for a shell", "shells",
            ("completion bash", "completion fish"),
            has_settings=False, asks_broker=False, json_words="print the script in a JSON object"),
    Command("version", "print the version", "parser",
            ("version", "version --json"),
            has_settings=False, asks_broker=False),
)
# fmt: on
