"""Replaces functions by functions: the type, the name, the signature and the attributes stay. Puts them back."""

from functools import wraps
from weakref import WeakSet

__all__ = ["is_replaced", "put", "replace", "undo"]

_replacements = WeakSet()
_INHERITED = object()
_done = []  # what undo() puts back


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
    put(owner, name, replacement)


def put(owner, name, replacement):
    """Puts something in the place of an attribute of a class or a module, also of an inherited one."""
    _done.append((owner, name, vars(owner).get(name, _INHERITED), replacement))
    setattr(owner, name, replacement)


def undo():
    """Puts back what is still in its place."""
    while _done:
        owner, name, original, replacement = _done.pop()
        if vars(owner).get(name) is not replacement:
            continue
        if original is _INHERITED:
            delattr(owner, name)
        else:
            setattr(owner, name, original)


def is_replaced(function):
    """Returns whether a function is one that `replace` has made."""
    return type(function) is type(replace) and function in _replacements
