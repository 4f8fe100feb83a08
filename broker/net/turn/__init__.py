"""One turn of a connection: receive, cut frames, answer, send.

Here go the compiled module of it and its types of C. Nothing else.
"""
