"""Talking to a broker: a small client, its login, what a cluster has, pins.

Here goes what opens a connection to a broker.
"""
