"""Connections of Kafka clients: listening, receiving, finding the handler, sending.

Here goes what knows sockets, frames and their order. What a request means is the handlers' matter.
"""
