"""Pages about groups: their members and their lag."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from siltstone.broker.groups.group_offsets import list_committed
from siltstone.broker.http.api.questions import SHARE_SECONDS, BadQuestion, Question, shown
from siltstone.broker.http.values import HttpRequest
from siltstone.broker.process.client_limits import MAX_TEXT
from siltstone.broker.process.loop_share import LoopShare
from siltstone.broker.services import Services

if TYPE_CHECKING:
    from siltstone.broker.groups.coordinator import GroupCoordinator
    from siltstone.broker.groups.group import Group

MAX_GROUPS: Final = 10_000
MAX_ROWS: Final = 1000
MAX_CHARACTERS: Final = 4 << 20
"""The most characters of group names in one answer: clients choose names of up to 32,767."""
_AT_A_TIME: Final = 256


class GroupPages:
    """``/api/groups`` and ``/api/group`` (loop only). A request does not build the coordinators."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @property
    def _groups(self) -> GroupCoordinator | None:
        built = self._services.coordinators.built
        return None if built is None else built.groups

    async def all(self, request: HttpRequest) -> dict[str, Any]:
        """Return groups with their lag; only some of them if there are many."""
        question = Question(request, ("q", "limit"))
        wanted, limit = question.text("q"), question.number("limit", 200, 1, MAX_GROUPS)
        groups = self._groups
        every = [] if groups is None else groups.list_ids()
        chosen = sorted(each for each in every if wanted in each)
        share = LoopShare(SHARE_SECONDS)
        found = []
        room = MAX_CHARACTERS
        for group_id in chosen[:limit]:
            group = None if groups is None else groups.find(group_id)
            if group is None:  # it was deleted meanwhile
                continue
            room -= len(group_id)
            if room < 0:
                break
            lag = partitions = 0
            for row in self._rows(group):
                partitions += 1
                lag += row["lag"] or 0
                await share.rest()
            facts = _describe(group)
            found.append({**facts, "committed_partitions": partitions, "lag": lag})
            await share.rest()
        return {"total": len(chosen), "left_out": len(chosen) - len(found), "groups": found}

    async def one(self, request: HttpRequest) -> dict[str, Any]:
        """Return a group's members and what it has committed."""
        group_id = Question(request, ("id",)).wanted("id")
        groups = self._groups
        group = None if groups is None else groups.find(group_id)
        if group is None:
            raise BadQuestion(f"there is no group {shown(group_id)} here", status=404)
        share = LoopShare(SHARE_SECONDS)
        rows: list[dict[str, Any]] = []
        lag = total = 0
        for row in self._rows(group):
            total += 1
            lag += row["lag"] or 0
            if len(rows) < MAX_ROWS:
                rows.append(row)
            await share.rest()
        rows.sort(key=lambda row: (row["topic"], row["partition"]))
        return {
            **_describe(group),
            "committed_partitions": total,
            "lag": lag,
            "left_out": total - len(rows),
            "offsets": rows,
            "member_details": [
                {
                    "id": name[:MAX_TEXT],
                    "client_id": each.client_id[:MAX_TEXT],
                    "client_host": each.client_host,
                }
                for name, each in list(_members(group).items())[:MAX_ROWS]
            ],
        }

    def _rows(self, group: Group) -> Iterator[dict[str, Any]]:
        """Yield the committed offsets of a group; a deleted partition has no lag."""
        assert self._groups is not None  # noqa: S101  # the group is from it
        logs = self._services.topics.logs
        for topic, committed in list(self._groups.offsets.topics(group.group_id).items()):
            indexes = list(committed)
            for start in range(0, len(indexes), _AT_A_TIME):
                for index, offset, *_ in list_committed(
                    committed, indexes[start : start + _AT_A_TIME]
                ):
                    if offset < 0:
                        continue  # deleted while others were served
                    log = logs.get((topic, index))
                    end = None if log is None else log.end.log_end_offset
                    yield {
                        "topic": topic,
                        "partition": index,
                        "committed_offset": offset,
                        "end_offset": end,
                        "lag": None if end is None else max(0, end - offset),
                    }


def _describe(group: Group) -> dict[str, Any]:
    return {
        "id": group.group_id,
        "protocol": group.type,
        "state": str(group.state),
        "type": group.protocol_type and group.protocol_type[:MAX_TEXT],
        "members": len(_members(group)),
    }


def _members(group: Any) -> dict[str, Any]:
    """Return the members of a group of either protocol."""
    members: dict[str, Any] = (
        group.members.by_id if group.type == "classic" else group.machine.members
    )
    return members
