"""Programs for work on this repository; nothing here runs in the broker.

Modules write code or documents. The folders judge: `checker` a history, `compat` a run of public
test suites.
"""
