"""Groups of the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

Here goes the state machine of such a group, without I/O. The coordinator runs it and writes for it.
"""
