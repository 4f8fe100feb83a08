"""Share groups (KIP-932): several members may work off the same partition as a queue.

The delivery state of each partition is in `broker.share`. The modules here decide what changes in a
group and do no I/O, but for `all_groups`, which writes their records.
"""
