"""The text that ``siltstone explain`` and other commands print for a person."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from siltstone.broker.commands.terminal import wrap
from siltstone.cleaner.explaining.advice import ADVICE, advise, is_failed, is_waiting
from siltstone.cleaner.explaining.explanation import moment

MAX_IN_DETAIL = 20
_DETAIL_HANG = 12
_WIDEST_NAME = 40
_MAX_TOPICS = 10
_VERDICTS = {"in-progress": "being cleaned", "requested": "next"}


def explanation_lines(
    partitions: list[dict[str, Any]],
    now_ms: int,
    *,
    in_detail: bool,
    width: int | None = None,
    of_many: int = 0,
) -> Iterator[str]:
    """Yield the lines: a summary by reason if there are several, then lines for each or a table.

    ``of_many`` is the number of all partitions, if only some of them are wanted.
    """
    if len(partitions) > 1:
        yield from _summary(partitions, width, of_many)
        yield ""
    if in_detail:
        for facts in partitions:
            for line in _detail(facts, now_ms):
                yield from wrap(line, width, _DETAIL_HANG)
            yield ""
    else:
        yield from _table(partitions, width)


def _summary(partitions: list[dict[str, Any]], width: int | None, of_many: int) -> Iterator[str]:
    counts = Counter(facts["rule"] for facts in partitions)
    waiting = sum(map(is_waiting, partitions))
    failed = sum(map(is_failed, partitions))
    is_part = of_many > len(partitions)
    some = f"{len(partitions)} of {of_many} partitions" if is_part else ""
    some = some or counted(len(partitions), "partition")
    yield f"{some}: {failed} failed, {waiting} waiting"
    for rule, count in counts.most_common():
        yield from wrap(f"{count:>7}  {rule:<20} {ADVICE.get(rule, '')}", width, 30)
    if not is_part:  # of some partitions alone, sizes do not explain the disk
        yield from _sizes(partitions, width)


def _sizes(partitions: list[dict[str, Any]], width: int | None) -> Iterator[str]:
    """Yield the topics that take most of the disk, if there are several."""
    sizes: Counter[str] = Counter()
    for facts in partitions:
        sizes[facts["topic"]] += facts.get("size_bytes", 0)
    total = sizes.total()
    if len(sizes) < 2 or not total:
        return
    counts = Counter(facts["topic"] for facts in partitions)
    yield f"{size(total)} on the disk, by topic:"
    for topic, count in sizes.most_common(_MAX_TOPICS):
        share, many = f"{count / total:.0%}", counted(counts[topic], "partition")
        yield from wrap(f"{size(count):>10} {share:>5}  {topic}, {many}", width, 18)
    if len(sizes) > _MAX_TOPICS:
        yield f"{'':>18}and {counted(len(sizes) - _MAX_TOPICS, 'topic')} more"


def _table(partitions: list[dict[str, Any]], width: int | None) -> Iterator[str]:
    names = [partition_name(facts) for facts in partitions]
    column = min(max(map(len, names), default=0), _WIDEST_NAME)
    column = max(column, len("PARTITION"))
    yield from wrap(f"{'PARTITION':<{column}}  {'REASON':<20} DIRTY  WHY", width)
    for name, facts in zip(names, partitions, strict=True):
        ratio = f"{facts['dirty_ratio']:.2f}" if "dirty_ratio" in facts else "-"
        line = f"{name:<{column}}  {facts['rule']:<20} {ratio:>5}  {facts['because']}"
        yield from wrap(line, width, column + 30)


def partition_name(facts: Mapping[str, Any]) -> str:
    """Return ``orders-3``."""
    return f"{facts['topic']}-{facts['partition']}"


def _detail(facts: dict[str, Any], now_ms: int) -> Iterator[str]:
    verdict = "eligible" if facts["eligible"] else "not eligible"
    verdict = _VERDICTS.get(facts["rule"], verdict)
    yield f"{partition_name(facts)}: {verdict} ({facts['rule']})"
    yield f"  {facts['because']}"
    if "first_dirty_offset" in facts:
        yield (
            f"  offsets   start {facts['log_start_offset']}"
            f" | first dirty {facts['first_dirty_offset']}"
            f" | first uncleanable {facts['first_uncleanable_offset']}"
            f" | last stable {facts['last_stable_offset']}"
            f" | end {facts['log_end_offset']}"
        )
        yield (
            f"  bytes     clean {size(facts['clean_bytes'])}"
            f" | cleanable {size(facts['cleanable_bytes'])}"
            f" | uncleanable {size(facts['uncleanable_bytes'])}"
        )
        yield (
            f"  ratio     {facts['dirty_ratio']:.4g}, threshold "
            f"{facts['min_cleanable_dirty_ratio']:g}"
        )
    yield f"  next pass {_next(facts, now_ms)}"
    yield f"  to do     {advise(facts)}"
    for queue in facts.get("queues", ()):
        yield from _queue(queue)
    for sentence in facts.get("damage", ()):
        yield f"  damage    {sentence}"
    if facts.get("last_pass"):
        yield f"  last pass {_last(facts['last_pass'])}"
    if "prediction" in facts:
        yield from prediction_lines(facts["prediction"])


def _queue(queue: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of a queue of a share group: why it stands still, and its locks."""
    start = queue["start_offset"]
    yield f"  queue     of {queue['group']}, from offset {start}: {queue['because']}"
    for lock in queue["locked"]:
        yield (
            f"    locked  {lock['first_offset']} to {lock['last_offset']} by {lock['member']} "
            f"until {moment(lock['until_ms'])}, delivery {lock['deliveries']}"
        )
    for run in queue["last_tries"]:
        yield (
            f"    limit   {run['first_offset']} to {run['last_offset']}: delivered "
            f"{run['deliveries']} times, the next time is the last"
        )


def _next(facts: Mapping[str, Any], now_ms: int) -> str:
    next_ms = facts["next_eligible_ms"]
    if next_ms is None:
        return "only after something changes"
    if next_ms <= now_ms:
        return "now"
    return f"at {moment(next_ms)}, in {duration((next_ms - now_ms) / 1000)}"


def _last(last: Mapping[str, Any]) -> str:
    return (
        f"{moment(last['started_ms'])}, {duration(last['seconds'])}: offsets "
        f"{last['first_dirty_offset']} to {last['end_offset']}, {size(last['bytes_read'])} became "
        f"{size(last['bytes_written'])}, {counted(last['records_dropped'], 'record')} dropped"
    )


def prediction_lines(prediction: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a dry run found."""
    if "fault" in prediction:
        yield f"  dry run   {prediction['fault']}"
        return
    yield (
        f"  dry run   {prediction['records_in']} records become {prediction['records_out']}, "
        f"{size(prediction['bytes_in'])} become {size(prediction['bytes_out'])}, "
        f"{prediction['segments_in']} segments become {prediction['segments_out']}"
    )
    gone = {why: count for why, count in prediction["records_dropped"].items() if count}
    if gone:
        reasons = ", ".join(
            f"{count} {why.replace('_', ' ')} ({size(prediction['bytes_dropped'][why])})"
            for why, count in gone.items()
        )
        yield f"            go: {reasons}"
    if prediction["horizons_set"]:
        yield (
            f"            stay for now: tombstones and markers in {prediction['horizons_set']} "
            "batches, which get a delete horizon; how many bytes that takes depends on the time"
        )
    yield (
        f"            map: {counted(prediction['map_keys'], 'key')}, "
        f"{size(prediction['map_bytes'])}; "
        f"passes: {prediction['passes']}; ends at offset {prediction['end_offset']}; "
        f"read in {prediction['seconds']:.3g} s"
    )


def event_line(event: Mapping[str, Any]) -> str:
    """Return one event of the cleaner's history."""
    head = f"{moment(event['started_ms'])}  {partition_name(event)}  {event['outcome']}"
    if event["outcome"] != "cleaned":
        why = " ".join(str(event[each]) for each in ("cause", "reason") if event.get(each))
        return f"{head}: {why}" if why else head
    held = ""
    if "prediction_held" in event:
        held = "; as predicted" if event["prediction_held"] else "; not as predicted"
    gone = ", ".join(
        f"{count} {why.replace('_', ' ')}"
        for why, count in event["records_dropped"].items()
        if count
    )
    return (
        f"{head}: offsets {event['first_dirty_offset']} to {event['end_offset']}, "
        f"{counted(event['segments_in'], 'segment')} to {event['segments_out']}, "
        f"{size(event['bytes_in'])} to {size(event['bytes_out'])}, "
        f"{counted(event['records_in'], 'record')} to {event['records_out']} "
        f"({gone or 'none went'}), "
        f"map {counted(event['map_keys'], 'key')}{' (full)' if event['map_full'] else ''}, "
        f"{event['seconds']:.3g} s{held}"
    )


def counted(count: int, noun: str) -> str:
    """Return a number with its noun: 1 fault, 2 faults."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def size(count: int) -> str:
    """Return a number of bytes for a person: 1,023 B, 1.5 MiB."""
    if count < 1024:
        return f"{count} B"
    value, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        value, unit = value / 1024, larger
        if value < 1024:
            break
    return f"{value:.4g} {unit}"


def duration(seconds: float) -> str:
    """Return a time span for a person: 0.25 s, 3 min, 2.5 h, 12 days."""
    for limit, divisor, unit in ((120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h")):
        if seconds < limit:
            return f"{seconds / divisor:.3g} {unit}"
    return f"{seconds / 86_400:.4g} days"
