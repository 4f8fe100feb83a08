"""Why a partition is cleaned next or is not, and what a pass would do.

Here goes what reads and answers. It decides nothing: that is `cleaner.selection`.
"""
