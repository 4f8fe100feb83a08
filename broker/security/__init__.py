"""Who a client is, and what it may do: principals, rules (ACLs), credentials and logins.

What stands here knows no sockets and no handlers: those ask it.
"""
