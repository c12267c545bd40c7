"""Declares what a program is recorded by: locks, files, sockets, queues, blocks, and rows of its own."""
