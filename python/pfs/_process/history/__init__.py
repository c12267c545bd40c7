"""Samples of what threads do: takes them, keeps them in files, and answers questions about them."""
