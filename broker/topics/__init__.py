"""The topics of this broker: which there are, their partitions, and what may be done to them.

Here goes what changes or watches a whole topic: making and deleting it, the catalogue, leaders,
pins, and how the cleaner gets its logs. The records of a partition are in `storage`.
"""
