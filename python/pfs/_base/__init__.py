"""Finds files and folders: of the installed package, and those that a stranger may have put in our way."""
