"""Clients and their rights: principals, rules (ACLs), credentials, logins, quotas, the audit log.

This package knows no sockets and no handlers: sockets and handlers call it.
"""
