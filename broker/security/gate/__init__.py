"""The gate: every request of a broker with an authorizer passes here before its handler.

A guard asks for the rights that `broker.security.requirements` lists, has the handler serve what is
allowed, and puts the refusals beside its answers. Without an authorizer no request comes here.
"""
