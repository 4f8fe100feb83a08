"""The threads that make passes, and the process that they use without compiled loops.

Here goes who runs a pass and how fast it may read and write.
"""
