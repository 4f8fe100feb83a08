"""The web page and its files: there is no build step, and nothing comes from other sites.

``files`` has the files that are sent unchanged. The page shows all text of users as
``textContent``.
"""
