"""One turn of a connection: receive, cut frames, answer, send.

This folder has only its compiled module.
"""
