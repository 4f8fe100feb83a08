"""From the batch of a producer to bytes at the end of a log.

Here go the rules that a batch must keep, and the compiled end of a log that writes it.
"""
