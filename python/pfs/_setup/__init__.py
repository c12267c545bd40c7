"""What ``pfs.setup`` is made of: rows with columns, a table of them, and mappings of variables."""
