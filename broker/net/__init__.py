"""Connections of Kafka clients: listening, receiving, finding the handler, sending.

This folder has the code for sockets, frames and their order. Handlers interpret the requests.
"""
