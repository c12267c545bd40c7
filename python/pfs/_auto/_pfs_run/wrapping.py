"""Replaces functions by functions: the type, the name, the signature and the attributes stay."""

from functools import wraps
from weakref import WeakSet

__all__ = ["is_replaced", "replace"]

_replacements = WeakSet()


def replace(owner, name, make):
    """Puts `make(original)`, a plain function, in the place of a plain function of a class or a module.

    Raises:
        TypeError: it is no plain function.
    """
    original = vars(owner)[name]
    if type(original) is not type(replace):
        raise TypeError(f"{owner.__name__}.{name} is a {type(original).__name__}")
    replacement = wraps(original)(make(original))
    _replacements.add(replacement)
    setattr(owner, name, replacement)


def is_replaced(function):
    """Returns whether a function is one that `replace` has made."""
    return type(function) is type(replace) and function in _replacements
