"""Every message in every version, and entities of kio's to fill them with."""

import random
from dataclasses import MISSING, fields
from importlib import import_module
from typing import Any

import pytest
from kio.index import load_request_schema, load_response_schema

from siltstone.protocol.messages import Message
from tests.support.kio_messages import example, smallest
from tests.support.kio_schemas import EntityField, EntityTupleField, classify_field, is_optional
from tests.support.newer_than_kio import is_newer
from tools.messages import APIS, to_snake

MODULES = sorted(map(to_snake, APIS))


def find_cases() -> list[Any]:
    """Return (message, kio's class) of every version of every module."""
    cases = []
    for name in MODULES:
        module = import_module(f"siltstone.protocol.messages.{name}")
        for direction, load in (
            ("REQUEST", load_request_schema),
            ("RESPONSE", load_response_schema),
        ):
            message = getattr(module, direction)
            for version in range(message.first, message.last + 1):
                if is_newer(message.key, version):
                    continue
                schema = load(message.key, version)
                cases.append(
                    pytest.param(message, schema, id=f"{name}-{direction.lower()}-{version}")
                )
    return cases


def find_messages() -> dict[tuple[str, int], Message]:
    """Return every message by its direction and the key of its API."""
    found = {}
    for name in MODULES:
        module = import_module(f"siltstone.protocol.messages.{name}")
        for direction in ("REQUEST", "RESPONSE"):
            message: Message = getattr(module, direction)
            found[direction, message.key] = message
    return found


CASES = find_cases()
MESSAGES = find_messages()
SEEDS = 10


def entities(schema: Any) -> list[Any]:
    """Return an example, the smallest and some random entities of a class."""
    chance = random.Random(schema.__name__)
    several = [vary(example(schema, seed, seed % 4), chance) for seed in range(3, 3 + SEEDS)]
    return [example(schema), smallest(schema), *several]


def vary(entity: Any, chance: random.Random) -> Any:
    """Return an entity with some nullable fields null, and some fields at their defaults."""
    values = {}
    for field in fields(entity):
        value = getattr(entity, field.name)
        kind = classify_field(field)
        if is_optional(field) and chance.random() < 0.3:
            value = None
        elif field.default is not MISSING and chance.random() < 0.2:
            value = getattr(smallest(type(entity)), field.name)
        elif isinstance(kind, EntityField) and value is not None:
            value = vary(value, chance)
        elif isinstance(kind, EntityTupleField) and value is not None:
            value = tuple(vary(each, chance) for each in value)
        values[field.name] = value
    return type(entity)(**values)
