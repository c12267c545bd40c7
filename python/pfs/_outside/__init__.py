"""Finds, reads and changes the segments of other processes."""
