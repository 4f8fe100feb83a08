"""Transactions: their producers, and how partitions learn how a transaction ended (KIP-98, 890)."""
