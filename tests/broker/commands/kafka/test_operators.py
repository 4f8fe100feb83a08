"""`siltstone acls`, `quotas`, `configs` and `users` on a running broker."""

import pytest

from tests.support.running import a_broker
from tests.support.shell import Shell, shell

broker = a_broker(
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users=User:ANONYMOUS",
)
__all__ = ["shell"]


def rule(operation: str, resource: str, name: str) -> dict[str, str]:
    """Return a rule of alice's as it is printed."""
    return {
        "permission": "allow", "principal": "User:alice", "host": "*", "operation": operation,
        "resource": resource, "name": name, "pattern": "literal",
    }  # fmt: skip


async def test_the_life_of_rules(shell: Shell) -> None:
    """Each combination of the words is a rule; a filter finds those that it does not exclude."""
    add = ["acls", "add", "--allow", "User:alice", "--operation", "read", "--operation", "write"]
    assert (await shell.ask(*add, "--topic", "orders", "--group", "billing"))["added"] == [
        rule("read", "topic", "orders"), rule("read", "group", "billing"),
        rule("write", "topic", "orders"), rule("write", "group", "billing"),
    ]  # fmt: skip
    await shell.run(
        "acls", "add", "--deny", "User:*", "--operation", "all", "--topic", "sec", "--prefixed",
        "--host", "10.0.0.0/8",
    )  # fmt: skip

    of_orders = await shell.ask("acls", "--topic", "orders")
    denied = (await shell.run("acls", "--prefixed")).splitlines()
    removed = await shell.ask("acls", "remove", "--allow", "User:alice", "--operation", "write")

    assert of_orders["acls"] == [rule("read", "topic", "orders"), rule("write", "topic", "orders")]
    assert denied[1].split() == ["deny", "User:*", "10.0.0.0/8", "all", "topic", "sec", "prefixed"]
    assert removed["removed"] == [
        rule("write", "topic", "orders"), rule("write", "group", "billing"),
    ]  # fmt: skip
    assert len((await shell.ask("acls"))["acls"]) == 3


async def test_a_prefixed_rule_does_not_go_with_a_literal_one(shell: Shell) -> None:
    """A name alone is that of literal rules, as with Kafka's tool."""
    add = ["acls", "add", "--deny", "User:alice", "--operation", "read", "--topic", "orders"]
    await shell.run(*add)
    await shell.run(*add, "--prefixed")

    removed = await shell.ask("acls", "remove", "--topic", "orders")

    assert [each["pattern"] for each in removed["removed"]] == ["literal"]
    assert [each["pattern"] for each in (await shell.ask("acls"))["acls"]] == ["prefixed"]


async def test_the_life_of_a_quota(shell: Shell) -> None:
    """Of a user, and of all clients without their own."""
    await shell.run("quotas", "set", "--user", "alice", "--quota", "producer_byte_rate=1048576")
    told = await shell.run(
        "quotas", "set", "--client", "<default>", "--quota", "request_percentage=50.5"
    )
    assert told.splitlines()[1].split() == ["client-id", "<default>", "request_percentage", "50.5"]

    assert await shell.ask("quotas", "--user", "alice") == {
        "quotas": [{"entity": {"user": "alice"}, "quotas": {"producer_byte_rate": 1048576.0}}]
    }
    await shell.run("quotas", "set", "--user", "alice", "--unset", "producer_byte_rate")
    assert [each["entity"] for each in (await shell.ask("quotas"))["quotas"]] == [
        {"client-id": None}
    ]


async def test_dynamic_settings(shell: Shell) -> None:
    """Of all brokers, of one, of a group, and the level of a logger."""
    assert (
        await shell.run("configs", "set", "-c", "log.cleaner.threads=2") == "altered all brokers\n"
    )
    assert {"name": "log.cleaner.threads", "value": "2", "source": "brokers, dynamic"} in (
        await shell.ask("configs")
    )["settings"]
    await shell.run("configs", "set", "--unset", "log.cleaner.threads")
    assert "log.cleaner.threads" not in await shell.run("configs")
    assert "log.cleaner.threads" in await shell.run("configs", "--broker", "1", "--all")
    of_group = ["configs", "--group", "billing"]
    await shell.run(
        "configs", "set", "--group", "billing", "-c", "consumer.session.timeout.ms=50000"
    )
    assert await shell.ask(*of_group) == {
        "settings": [{"name": "consumer.session.timeout.ms", "value": "50000", "source": "group"}]
    }
    assert "logger" in await shell.run("configs", "--loggers", "1")


async def test_users_of_a_running_broker(shell: Shell) -> None:
    """They log in by SCRAM at once; another one is removed, and one that is missing is named."""
    await shell.run("users", "--add", "alice", given=b"secret\n")
    assert await shell.ask("users") == {
        "users": [
            {
                "name": "alice",
                "mechanisms": [
                    {"name": "SCRAM-SHA-256", "iterations": 4096},
                    {"name": "SCRAM-SHA-512", "iterations": 4096},
                ],
            }
        ]
    }
    await shell.run("users", "--remove", "bob", code=1)
    assert shell.error == "there is no user bob to remove\n"
    await shell.run("users", "--add", "bob", code=1)
    assert "the password of bob is empty" in shell.error
    await shell.run("users", "--add-scram", "SCRAM-SHA-256=[name=a,password=b]", code=1)
    assert "a running one takes --add" in shell.error
    assert await shell.run("users", "--remove", "alice") == "there are no users\n"


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["acls", "add", "--allow", "User:a"], 2, "siltstone acls add wants --allow or --deny"),
        (["acls", "remove"], 2, "siltstone acls remove wants to know which"),
        (
            ["acls", "add", "--allow", "alice", "--operation", "read", "--topic", "t"],
            1,
            "Could not",
        ),
        (["quotas", "set", "--user", "a"], 2, "siltstone quotas set wants"),
        (["quotas", "set", "--user", "a", "--quota", "b=c"], 2, "--quota b=c: write NAME=NUMBER"),
        (["quotas", "set", "--user", "a", "--quota", "nonsense=1"], 1, "Invalid configuration key"),
        (["quotas", "--user", "a", "--quota", "b=1"], 2, "--quota and --unset are for siltstone"),
        (["configs", "-c", "a=1"], 2, "-c and --unset are for siltstone configs set alone"),
        (["configs", "set"], 2, "siltstone configs set wants -c"),
        (["configs", "set", "-c", "nonsense"], 2, "-c nonsense: write NAME=VALUE"),
        (["configs", "set", "-c", "nonsense=1"], 1, "nonsense is not a setting"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else "",
)
async def test_what_is_refused(shell: Shell, words: list[str], code: int, sentence: str) -> None:
    """Wrong usage ends with 2, a refusal of the broker with 1, each with one sentence."""
    await shell.run(*words, code=code)

    assert shell.error.startswith(sentence), shell.error
