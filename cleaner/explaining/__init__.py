"""Why a partition is cleaned next or is not, and what a pass would do.

Here goes code that reads and answers. Decisions are in `cleaner.selection`.
"""
