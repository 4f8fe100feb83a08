"""Programs for work on this repository; nothing here runs in the broker.

Modules write code or documents; `compat` judges a run of public test suites.
"""
