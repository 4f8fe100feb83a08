"""The state of a partition's producers: sequences, open transactions, markers.

Here go that state, its snapshots, the entries of aborted transactions, and the questions that an
append asks of it.
"""
