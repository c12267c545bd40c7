"""Serves people where they work: the command line, Jupyter, pytest."""
