"""Turns places in code and data, such as app+0x1f3b, into symbols and lines. Only readers do so, never the program itself."""
