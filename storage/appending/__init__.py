"""The rules that the batch of a producer must keep before a log takes it.

Here go those rules and their refusals; `storage.log.end` writes what keeps them.
"""
