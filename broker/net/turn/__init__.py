"""One turn of a connection: receive, cut frames, answer, send.

Here go the compiled module of it, its plain form, and what the two stand on. Nothing else.
"""
