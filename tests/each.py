"""``@for_each("name", pfs.tables())``: one test for many values, as pytest.mark.parametrize writes them, without a case for each.

A case has a price before it does anything. The test looks at all values, and its failure names all that failed.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any


def for_each(name: str, values: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    def decorate(check: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(check)
        def test(**fixtures: Any) -> None:
            looked_at, failed = 0, {}
            for value in values:
                looked_at += 1
                try:
                    check(**fixtures, **{name: value})
                except Exception as error:
                    failed[str(value)] = error
            assert looked_at
            if failed:
                raise ExceptionGroup(f"{len(failed)} of {looked_at} failed: {', '.join(failed)}", list(failed.values()))

        whole = inspect.signature(check)
        rest = [parameter for parameter in whole.parameters.values() if parameter.name != name]
        test.__signature__ = whole.replace(parameters=rest)  # type: ignore[attr-defined]
        return test

    return decorate
