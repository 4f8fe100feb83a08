"""TLS: certificates, handshakes, and the channel that encrypts.

Here goes what listeners and the HTTP port need to speak TLS. It is imported when one of them does.
"""
