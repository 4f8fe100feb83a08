"""Transactions: who may write in which, and how all partitions learn how it ended (KIP-98, 890)."""
