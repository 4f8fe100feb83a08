"""The rules that a producer's batch must keep before it is appended to a log.

This folder has the rules and the errors; `storage.log.end` writes the batches that keep the rules.
"""
