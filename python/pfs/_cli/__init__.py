"""The commands of ``pfs``, with click and rich."""
