"""Groups of the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

This package has the state machine of such a group, without I/O. The coordinator runs the state
machine and writes its records.
"""
