"""Reads, merges and exports files of the trace."""
