"""Reads and runs processes: this one, others, dead ones; answers a question wherever its rows are."""
