"""The states of a classic group, in a module of its own: metrics need them at the start."""

from enum import StrEnum


class GroupState(StrEnum):
    """The states by the names that tools print."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"
