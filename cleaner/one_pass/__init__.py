"""One pass over one log: read the keys, choose segments, copy what stays, swap.

Here goes each step of a pass, and the rules of what stays. Who takes which log, and when, is not
its matter.
"""
