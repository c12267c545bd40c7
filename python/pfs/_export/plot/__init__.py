"""Draws events, latencies and locks with matplotlib: the functions of ``pfs.plot``, each with what it computes apart from what it
draws."""
