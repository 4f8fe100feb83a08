"""The queues of share groups (KIP-932): what became of each record of a partition in a group.

A queue is the delivery state of one partition for one group. The share coordinator (`states`) keeps
it in ``__share_group_state``. The groups and their members are in `broker.groups.share`.
"""
