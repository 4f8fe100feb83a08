"""Groups of Kafka Streams applications (KIP-1071).

This package has the group, its members, and each transition as a module of its own. Transitions do
no I/O: `all_groups` runs them and writes the records that they return.
"""
