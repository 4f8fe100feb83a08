"""One turn of a connection: receive, cut frames, answer, send.

Here goes the compiled module of it. Nothing else.
"""
