"""The states of a classic group: metrics name them before there is a coordinator."""

from enum import StrEnum


class GroupState(StrEnum):
    """The states by the names that tools print."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"
