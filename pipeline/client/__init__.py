"""Talking to a broker: a small client, its login, questions to a cluster, pins.

Here goes code that opens a connection to a broker.
"""
