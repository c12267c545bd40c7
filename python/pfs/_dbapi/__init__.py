"""Database drivers whose statements and transactions are recorded."""
