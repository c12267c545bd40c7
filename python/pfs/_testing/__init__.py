"""The pytest plugin: budgets, reports, and the overhead of pfs."""
