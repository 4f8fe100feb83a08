"""The work of past passes: the file of their receipts, and the numbers for metrics.

Here goes code that writes or counts after a pass, and code that reads that later.
"""
