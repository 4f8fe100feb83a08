"""Why a partition is or is not cleaned next, and what a pass would do.

This folder has code that reads and answers. Decisions are in `cleaner.selection`.
"""
