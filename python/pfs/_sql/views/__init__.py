"""Declares the views of the schema sys: their columns, their SQL and a sentence about each."""
