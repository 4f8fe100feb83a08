"""Groups of the consumer protocol (KIP-848).

Here go the group, its members, and each transition as a module of its own. They do no I/O:
`all_groups` runs them and writes what they say.
"""
