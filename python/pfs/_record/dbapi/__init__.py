"""Records the statements and transactions of database drivers."""
