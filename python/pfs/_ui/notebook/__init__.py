"""Implements ``%load_ext pfs``: ``%%pfs`` and ``%pfs on``, readable frames, completion of names, pictures of events."""
