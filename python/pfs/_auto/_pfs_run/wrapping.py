"""Replaces functions by functions: the type, the name, the signature and the attributes stay."""

from functools import wraps

__all__ = ["replace"]


def replace(owner, name, make):
    """Puts `make(original)`, a plain function, in the place of a plain function of a class or a module.

    Raises:
        TypeError: it is no plain function.
    """
    original = vars(owner)[name]
    if type(original) is not type(replace):
        raise TypeError(f"{owner.__name__}.{name} is a {type(original).__name__}")
    setattr(owner, name, wraps(original)(make(original)))
