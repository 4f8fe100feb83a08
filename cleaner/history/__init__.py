"""What passes have done: the file of their receipts, and the numbers for metrics.

Here goes what is written or counted after a pass, and what is read of it later.
"""
