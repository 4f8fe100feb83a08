"""Why a partition is or is not cleaned next, and what a pass would do.

Code in this folder only reads and explains. `cleaner.selection` decides.
"""
