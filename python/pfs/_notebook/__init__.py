"""Implements ``%load_ext pfs``: the magic ``%%pfs``, readable frames, completion of names of tables, and pictures of events."""
