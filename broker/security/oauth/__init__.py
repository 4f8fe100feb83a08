"""SASL OAUTHBEARER: a client logs in with a token that another party has signed.

This package has the conversation, the checks of a token, the keys, and the sources of keys. All of
it runs on io threads. Modules that need the extra ``oauth`` are imported when a listener accepts
tokens.
"""
