"""TLS: certificates, handshakes, and the channel that encrypts.

This folder has what listeners and the HTTP port need for TLS. It is imported only if one of them
uses TLS.
"""
