"""The command line of the pipeline: arguments and progress.

This folder has code that talks to the person at the terminal. Jobs are in `pipeline.jobs`.
"""
