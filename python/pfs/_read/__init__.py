"""Reads tables as rows, frames and Arrow; `places` names lines and functions of code."""
