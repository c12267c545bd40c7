"""Implements the commands of ``pfs``, with click and rich."""
