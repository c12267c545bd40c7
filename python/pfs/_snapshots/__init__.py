"""Snapshots of all tables, in memory or as Parquet files, and their differences."""
