"""Keeps what all processes of a host have counted in files, one for each cut, and reads the files of many hosts."""
