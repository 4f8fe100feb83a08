"""The compiled loops of the cleaner, their plain form, and the arrays between.

Here goes what must run without the GIL, and what is needed to call it.
"""
