"""A small shop, and how it talks to Kafka."""
