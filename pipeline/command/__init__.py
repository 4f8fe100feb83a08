"""The command line of the pipeline: arguments, progress, ``doctor``.

Here goes code that speaks to the person at the terminal. Jobs are in `pipeline.jobs`.
"""
