"""AlterReplicaLogDirs: the answers for partitions that are not moved."""

import pytest

from siltstone.protocol.errors import ErrorCode
from siltstone.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from tests.support.ask import ask
from tests.support.services import ServicesOnDisk

KEY = 34


async def test_many_refused_partitions_leave_few_lines(
    home: ServicesOnDisk, caplog: pytest.LogCaptureFixture
) -> None:
    """Each is answered; ten have a line of their own, and the others are counted in one."""
    topic = AlterReplicaLogDirTopic("nowhere", list(range(1000)))
    request = AlterReplicaLogDirsRequest([AlterReplicaLogDir("/not/here", [topic])])

    (result,) = (await ask(home, KEY, request)).results

    assert len(result.partitions) == 1000
    assert ErrorCode.none not in {each.error_code for each in result.partitions}
    lines = [record.getMessage() for record in caplog.records]
    assert [line.startswith("partition is not moved") for line in lines] == [True] * 10 + [False]
    assert lines[-1].startswith("990 more partitions are not moved peer=")
