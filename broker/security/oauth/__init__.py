"""SASL OAUTHBEARER: a client shows a token that somebody else has signed.

In here: the conversation, what makes a token good, and the keys with where they come from. All of
it runs on io threads. What needs the extra ``oauth`` is imported when a listener takes tokens.
"""
