"""Judges a history: what clients tried, what they were answered and what they were shown.

It knows records, transactions and offsets, and nothing of this broker: what it reads are events.
"""
