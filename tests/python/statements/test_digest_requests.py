"""Digests of requests and of Python code: parts of paths keep their spelling, values and slugs are '?'."""

from __future__ import annotations

import pytest

import pfs


@pytest.mark.parametrize(
    ("request_text", "digest"),
    [
        ("GET /sign-in", "GET /sign-in"),
        ("GET /log-out", "GET /log-out"),
        ("GET /write", "GET /write"),
        ("GET /select/from/Table", "GET /select/from/Table"),
        ("GET /shop/aio.py", "GET /shop/aio.py"),
        ("GET /api/v1/order-items/17", "GET /api/v1/order-items/?"),
        ("GET /", "GET /"),
        ("GET //a/", "GET //a/"),
        ("GET /users/17?page=2&q=/x", "GET /users/? ?"),
        ("GET /users/17 '?page=2'", "GET /users/? ?"),
        ("GET /u/6ba7b810-9dad-11d1-80b4-00c04fd430c8/x", "GET /u/?/x"),
        ("GET /commit/4f3a2b1c", "GET /commit/?"),
        ("GET /decade/facade", "GET /decade/facade"),
        ("GET /price/p123/g15/order-77/a_1", "GET /price/?/?/?/a_1"),
        ("GET /oauth2/s3/v10", "GET /oauth2/s3/?"),
        ("GET /a/'it''s/b'/c", "GET /a/?/c"),
        ("GET /a/'never closed", "GET /a/?"),
        ("OTHER 'brew' /pot", "OTHER ? /pot"),
        ("GET /127.0.0.1/a", "GET /?/a"),
        ("GET /localhost/a", "GET /localhost/a"),
        ("GET", "GET"),
    ],
)
def test_parts_of_paths(request_text: str, digest: str) -> None:
    assert pfs.digest(request_text, dialect="http")[1] == digest


@pytest.mark.parametrize(
    ("code", "digest"),
    [
        ("a = 1", "a = ?"),
        ("x = [f'a{b}', rb\"c\", 1.5e-3, .5, 0x1f, 1_0]  # secret", "x = [?, ?, ?, ?, ?, ?]"),
        ('s = """it\'s\n# no comment"""\nprint(s2, end=\'\\\'\')', "s = ? print(s2, end=?)"),
        ("%time a", "%time a"),
        ("größe += 1", "größe += ?"),
        ("'never closed", "?"),
    ],
)
def test_python_code(code: str, digest: str) -> None:
    assert pfs.digest(code, dialect="python")[1] == digest


def test_any_limit_gives_a_beginning() -> None:
    for dialect, text in (("http", "GET /users/größe/17?x"), ("python", "größe = [1, 'größe']  # x")):
        whole = pfs.digest(text, dialect=dialect)[1] or ""
        for limit in range(len(whole.encode()) + 3):
            assert whole.startswith(pfs.digest(text, limit, dialect=dialect)[1] or "")


def digests() -> list[str]:
    return list(pfs.table("events_statements_summary_by_digest")["DIGEST_TEXT"])


def test_a_position_with_many_names_is_a_value() -> None:
    pfs.truncate("events_statements_summary_by_digest")
    handler = pfs.statement("test/get", dialect="http")
    for i in range(4000):
        slug = "".join(chr(ord("a") + int(digit)) for digit in str(i))
        handler.begin(f"GET /shop-of-slugs/{slug}/reviews").end()
        handler.begin("GET /shop-of-slugs-too/all").end()
    found = digests()
    assert "GET /shop-of-slugs/?/reviews" in found
    assert "GET /shop-of-slugs-too/all" in found
    assert len(found) <= 52
    rows = pfs.table("events_statements_summary_by_digest").set_index("DIGEST_TEXT")["COUNT_STAR"]
    assert rows["GET /shop-of-slugs/?/reviews"] >= 3950
    assert rows.sum() == 8000
