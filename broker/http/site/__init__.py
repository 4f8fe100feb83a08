"""The page that a browser gets, and the files it is made of: no build step, nothing from elsewhere.

``files`` has what is sent as it stands. All text of users reaches the page as ``textContent``.
"""
