"""Keeps tables in files: snapshots, their sums and differences, and traces."""
