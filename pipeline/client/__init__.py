"""Talking to a broker: a small client, its login, questions to a cluster, pins.

This folder has all code that opens a connection to a broker.
"""
