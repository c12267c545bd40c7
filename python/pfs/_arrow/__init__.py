"""Makes Arrow tables of DataFrames, without pyarrow."""
