"""The state of a partition's producers: sequences, open transactions, markers.

This folder has that state, its snapshots, the entries of aborted transactions, and the checks of an
append against the state.
"""
