"""Reads tables of any source as DataFrames and samples, and shows small tables as text."""
