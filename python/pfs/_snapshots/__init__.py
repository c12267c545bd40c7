"""Takes snapshots of all tables, stores them as Parquet files, and compares them."""
