"""Talking to a broker: a small client, its login, cluster facts, pins.

Here goes what opens a connection to a broker.
"""
