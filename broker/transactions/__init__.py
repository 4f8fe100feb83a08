"""Transactions: which producer writes in which, and how partitions learn the end (KIP-98, 890)."""
