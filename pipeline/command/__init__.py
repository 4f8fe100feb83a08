"""The command line of the pipeline: arguments, progress, ``doctor``.

This folder has code that talks to the person at the terminal. Jobs are in `pipeline.jobs`.
"""
