"""The topics of this broker, their partitions, and the operations on them.

This package has the code that changes or watches a whole topic: creation and deletion, the
catalogue, leaders, pins, and how the cleaner gets its logs. The records of a partition are in
`storage`.
"""
