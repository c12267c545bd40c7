"""Implements the pytest plugin: budgets, reports, files of tests, and the overhead of pfs."""
