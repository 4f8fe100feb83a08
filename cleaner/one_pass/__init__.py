"""One pass over one log: read the keys, choose segments, copy what stays, swap.

This folder has each step of a pass, and the rules by which records stay. `cleaner.selection`
chooses the log and the moment.
"""
