"""Answers questions in SQL about the tables of a process, a snapshot or a folder. DuckDB does the work."""
