"""Says what the instructions of an interpreter without the GIL do: then a wait for an object has the name of its variable."""

import os
import sys

import _pfs_run_native as native

# Of the enumerator Does in cpp/run/python/python_bytecode.h.
(
    _HIDES,
    _OTHER,
    _PLAIN,
    _LEAVES_NOTHING,
    _EXTENDS,
    _JUMPS,
    _JUMPS_ALWAYS,
    _BRANCHES,
    _JUMPS_BACK,
    _LOCAL,
    _CELL,
    _TWO_LOCALS,
    _SECOND_LOCAL,
    _GLOBAL,
    _NAME,
    _ATTRIBUTE,
    _COPIES,
    _SWAPS,
    _SETS_ATTRIBUTE,
    _SETS_NAME,
) = range(20)
# What they do; how many values they take from the stack, at least and times their argument; and how many they leave there.
# BINARY_SLICE and STORE_SLICE are not here: while they wait, some of their values are gone.
_KNOWN = {
    (_PLAIN, 0, 0, 0): "NOP NOT_TAKEN RESUME",
    (_PLAIN, 0, 0, 1): "LOAD_CONST LOAD_SMALL_INT LOAD_COMMON_CONSTANT LOAD_FAST_AND_CLEAR",
    (_PLAIN, 0, 1, 1): "BUILD_LIST BUILD_SET BUILD_SLICE BUILD_STRING BUILD_TUPLE",
    (_PLAIN, 0, 2, 1): "BUILD_MAP",
    (_PLAIN, 1, 0, 0): "POP_TOP STORE_FAST STORE_DEREF LIST_APPEND LIST_EXTEND SET_ADD SET_UPDATE DICT_MERGE DICT_UPDATE",
    (_PLAIN, 1, 0, 1): "CALL_INTRINSIC_1 CONVERT_VALUE FORMAT_SIMPLE GET_ITER TO_BOOL UNARY_INVERT UNARY_NEGATIVE UNARY_NOT",
    (_PLAIN, 2, 0, 0): "DELETE_SUBSCR MAP_ADD STORE_FAST_STORE_FAST",
    (_PLAIN, 2, 0, 1): "BINARY_OP CALL_INTRINSIC_2 COMPARE_OP CONTAINS_OP FORMAT_WITH_SPEC IS_OP",
    (_PLAIN, 2, 1, 1): "CALL",
    (_PLAIN, 3, 0, 0): "STORE_SUBSCR",
    (_PLAIN, 3, 1, 1): "CALL_KW",
    (_PLAIN, 4, 0, 1): "CALL_FUNCTION_EX",
    (_LEAVES_NOTHING, 0, 0, 1): "PUSH_NULL",
    (_EXTENDS, 0, 0, 0): "EXTENDED_ARG",
    (_JUMPS, 1, 0, 0): "POP_JUMP_IF_FALSE POP_JUMP_IF_NONE POP_JUMP_IF_NOT_NONE POP_JUMP_IF_TRUE",
    (_JUMPS_ALWAYS, 0, 0, 0): "JUMP_FORWARD",
    (_LOCAL, 0, 0, 1): "LOAD_FAST LOAD_FAST_BORROW LOAD_FAST_CHECK",
    (_CELL, 0, 0, 1): "LOAD_DEREF",
    (_TWO_LOCALS, 0, 0, 2): "LOAD_FAST_LOAD_FAST LOAD_FAST_BORROW_LOAD_FAST_BORROW",
    (_SECOND_LOCAL, 1, 0, 1): "STORE_FAST_LOAD_FAST",
    (_GLOBAL, 0, 0, 1): "LOAD_GLOBAL",
    (_NAME, 0, 0, 1): "LOAD_NAME",
    (_ATTRIBUTE, 1, 0, 1): "LOAD_ATTR",
    (_COPIES, 0, 0, 1): "COPY",
    (_SWAPS, 0, 0, 0): "SWAP",
    (_SETS_ATTRIBUTE, 1, 0, 0): "DELETE_ATTR",
    (_SETS_ATTRIBUTE, 2, 0, 0): "STORE_ATTR",
    (_SETS_NAME, 0, 0, 0): "DELETE_GLOBAL DELETE_NAME",
    (_SETS_NAME, 1, 0, 0): "STORE_GLOBAL STORE_NAME",
}
# Words in the names of specialized instructions that go on in a function of Python.
_ENTERS = ("BOUND", "GEN", "GETITEM", "INIT", "OVERRIDDEN", "PROPERTY", "PY")


def _opcode():
    """Returns the standard library's module of that name, and leaves no module behind that the program has not imported."""
    paths, bootstrap = sys.modules["_frozen_importlib_external"], sys.modules["_frozen_importlib"]
    before = set(sys.modules)
    spec = paths.PathFinder.find_spec("opcode", [os.path.dirname(os.__file__)])
    module = bootstrap.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name in ("_opcode", "_opcode_metadata"):
        if name not in before:
            sys.modules.pop(name, None)
    return module


def _rows(opcode):
    """Returns a row of six bytes for each number, as of the struct Instruction."""
    of_names, argument = {}, 4  # one that has no low bit
    for what, names in _KNOWN.items():
        does, takes, takes_per_argument, leaves = what
        for name in names.split():
            number = opcode.opmap.get(name)
            if number is None:
                continue
            has_argument = number in opcode.hasarg
            effect = opcode.stack_effect(number, argument if has_argument else None)
            if effect == leaves - takes - takes_per_argument * (argument if has_argument else 0):
                of_names[name] = what
    rows = [bytes(6)] * 256
    for name, number in opcode.opmap.items():
        base = name.removeprefix("INSTRUMENTED_")
        if number > 255 or base in ("LINE", "INSTRUCTION", "ENTER_EXECUTOR", "CACHE", "RESERVED"):
            continue
        does, takes, takes_per_argument, leaves = of_names.get(base, (_OTHER, 0, 0, 0))
        if does == _OTHER and opcode.opmap.get(base) in opcode.hasjump:
            does = _JUMPS_BACK if "BACKWARD" in base else _BRANCHES
        caches = opcode._inline_cache_entries.get(base, 0)
        rows[number] = bytes((does, caches, takes, takes_per_argument, leaves, 0))
        for special in opcode._specializations.get(name, ()):
            words = set(special.split("_"))
            enters = "NON" not in words and not words.isdisjoint(_ENTERS)
            rows[opcode._specialized_opmap[special]] = rows[number][:-1] + bytes((enters,))
    return b"".join(rows)


def note():
    """Tells it the native layer."""
    code = _rows.__code__
    native.note_instructions(_rows(_opcode()), code, code.co_names)
