"""Implements ``pfs.setup``: rows with columns, tables of rows, and mappings of variables."""
