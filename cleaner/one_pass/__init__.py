"""One pass over one log: read the keys, choose segments, copy what stays, swap.

Here goes each step of a pass, and the rules by which records stay. The choice of the log and of the
moment is elsewhere.
"""
