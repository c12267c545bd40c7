"""Digests and histograms (semantics.md I2-I12). Each test in a process of its own."""

from __future__ import annotations

import ast
import hashlib
import math
import os
import time
from datetime import datetime, timedelta

import pytest

import pfs
from tests.python._programs.driver import every, instrument, losses, one, rows, status
from tests.python._programs.fresh_process import fresh_process
from tests.python._programs.nested import Statement, key_of
from tests.python._programs.sums import DIGESTS, HISTOGRAM, HISTOGRAMS, digests, in_histogram, in_histograms, of_digest

HISTORY = "events_statements_history_long"


def run(*texts: str, schema: str | None = None, seconds: float = 0) -> None:
    for text in texts:
        statement = Statement("i/query", text, schema)
        if seconds:
            time.sleep(seconds)
        statement.end()


@fresh_process()
def test_I2_one_digest_for_one_text_and_its_text() -> None:
    """I2: DIGEST is SHA-256 in 64 hex digits, the same for the same text, in rows and in the summary; DIGEST_TEXT beside it."""
    texts = ("SELECT * FROM t WHERE a = 1", "select *  from t where a=2 -- more", "SELECT * FROM u WHERE a = 1")
    run(*texts)
    found = [row["DIGEST"] for row in sorted(rows(HISTORY), key=lambda row: row["EVENT_ID"])]
    assert found[0] == found[1] != found[2]
    assert all(len(digest) == 64 and int(digest, 16) >= 0 for digest in found)
    assert found[0] != hashlib.sha256(texts[0].encode()).hexdigest()  # of tokens, not of the text
    assert [pfs.digest(text)[0] for text in texts] == found
    assert digests() == {(None, "SELECT * FROM `t` WHERE `a` = ?"): 2, (None, "SELECT * FROM `u` WHERE `a` = ?"): 1}
    assert {row["DIGEST"] for row in every(DIGESTS)} == set(found)
    assert [row["DIGEST_TEXT"] for row in rows(HISTORY, DIGEST=found[2])] == ["SELECT * FROM `u` WHERE `a` = ?"]


@fresh_process("performance_schema_max_digest_length={limit}")
@pytest.mark.parametrize("limit", [0, 1, 20, 64, 1048576])
def test_I2_the_token_stream_stops_at_its_limit(limit: int) -> None:
    """I2: the text simply ends there; texts that differ later only are one; limit 0: no digest at all."""
    long = "SELECT a, b, c FROM t1 JOIN t2 ON t1.x = t2.y WHERE " + " AND ".join(f"c{i} = {i}" for i in range(2000))
    run(long, long + " AND d = 1")
    whole = pfs.digest(long, 1048576)[1]
    found = {row["DIGEST_TEXT"] for row in rows(HISTORY)}
    if limit == 0:
        assert found == {None}
        assert every(DIGESTS) == every(HISTOGRAMS) == []
        assert in_histogram() == 2
        return
    texts = {pfs.digest(text, limit) for text in (long, long + " AND d = 1")}
    assert found == {text for _, text in texts}
    assert len(texts) == (2 if limit == 1048576 else 1)
    assert whole is not None
    for text in found:
        assert text is None or whole.startswith(text.removesuffix(" AND `d` = ?"))
    if limit > 1:
        assert {row["DIGEST"] for row in every(DIGESTS)} == {digest for digest, _ in texts}


NORMALISED = {
    "I3": {
        "select 1": "SELECT ?",
        "select 1, 'a', 2.5": "SELECT ?, ...",
        "select a from t where b in (1, 2, 3);": "SELECT `a` FROM `t` WHERE `b` IN (...)",
        "insert into t values (1)": "INSERT INTO `t` VALUES (?)",
        "insert into t values (1), (2), (3)": "INSERT INTO `t` VALUES (?) /* , ... */",
        "insert into t values (1, NULL)": "INSERT INTO `t` VALUES (...)",
        "insert into t values (1, 2), (3, 4)": "INSERT INTO `t` VALUES (...) /* , ... */",
        "select /* why */ `a`  \n\t from t # all": "SELECT `a` FROM `t`",
    },
    "I4": {
        "select * from t where a = -1": "SELECT * FROM `t` WHERE `a` = ?",
        "select * from t where a = + 1": "SELECT * FROM `t` WHERE `a` = ?",
        "select b - 1 from t": "SELECT `b` - ? FROM `t`",
        "select b + -1 from t": "SELECT `b` + ? FROM `t`",
    },
}


@fresh_process()
@pytest.mark.parametrize("fact", list(NORMALISED))
def test_I3_I4_texts_without_their_literals(fact: str) -> None:
    """I3: literals, lists, rows, comments, names, keywords; I4: a sign at the start of an expression. As the table shows them;
    test_digest_dialects.py has many more."""
    run(*NORMALISED[fact])
    assert {row["DIGEST_TEXT"] for row in every(DIGESTS)} == set(NORMALISED[fact].values())
    for text, shown in NORMALISED[fact].items():
        assert {row["DIGEST_TEXT"] for row in rows(HISTORY, SQL_TEXT=text)} == {shown}


@fresh_process()
def test_I5_the_key_is_schema_and_digest() -> None:
    """I5: 2 schemas and none x 3 spellings: one row each, COUNT 3; the schema may be said after the text; only 64 bytes count."""
    spellings = ("select a from t where b = 1", "SELECT a FROM t WHERE b='x'", "select a /* c */ from t where b = -7")
    for schema in ("shop", "bank", None):
        run(*spellings, schema=schema)
    text = "SELECT `a` FROM `t` WHERE `b` = ?"
    assert digests() == {(schema, text): 3 for schema in ("shop", "bank", None)}
    assert len({row["DIGEST"] for row in every(DIGESTS)}) == 1
    Statement("i/query", spellings[0]).set_schema("shop").end()
    Statement("i/query", spellings[0], "shop").set_schema("bank").end()
    for more in ("a", "b"):
        run(spellings[0], schema="s" * 64 + more)
    assert digests() == {("shop", text): 4, ("bank", text): 4, (None, text): 3, ("s" * 64, text): 2}
    run(spellings[0], schema="Shop")
    assert digests()["Shop", text] == 1
    run(spellings[0], schema="")
    assert digests()[None, text] == 4


@fresh_process()
def test_I5_a_text_that_comes_again_counts_where_it_belongs() -> None:
    """I5: pfs remembers the digest of a text. A repeated text counts in another schema, after a TRUNCATE and in a child."""
    texts = [f"select a{i} from t where b = {i}" for i in range(3)]
    for turn in range(6):
        for schema in ("shop", None, "bank"):
            run(*texts, schema=schema)
        found = digests()
        assert set(found.values()) == {turn + 1 if turn < 3 else turn - 2}
        assert len(found) == 9
        if turn == 2:
            pfs.truncate(DIGESTS)
            assert digests() == {}
    # The child's digests take the places of its parent's in another order.
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        run(*reversed(texts), *texts, texts[0])
        os.write(writer, repr(digests()).encode())
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    os.close(writer)
    in_child = ast.literal_eval(os.read(reader, 65536).decode())
    assert in_child == {(None, f"SELECT `a{i}` FROM `t` WHERE `b` = ?"): 3 if i == 0 else 2 for i in range(3)}
    assert set(digests().values()) == {3}


@fresh_process()
def test_I5_a_text_inside_another_one_of_its_place() -> None:
    """I5: statements in a statement replace what pfs remembers of its text; it counts in its own digest all the same."""
    texts = [f"select {'x' * (1 + i % 7)}{i} from t" for i in range(200)]
    run(*texts)
    outer = Statement("i/query", texts[0])
    run(*texts[1:])
    outer.end()
    assert set(digests().values()) == {2}
    assert len(digests()) == len(texts)


@fresh_process("performance_schema_digests_size={size}")
@pytest.mark.parametrize("size", [0, 1, 2, 3, 10, 11])
def test_I6_what_there_is_no_room_for(size: int) -> None:
    """I6: the size includes the row for all others, SCHEMA_NAME and DIGEST NULL; size 3, 10 texts: 2 and that row; digest_lost
    grows; size 0: empty. After TRUNCATE there is room again."""
    for again in range(2):
        for i in range(10):
            run(f"select c{i}", f"select c{i}", schema="shop")
        kept = [i for i in range(10) if i < size - 1]
        expected: dict[tuple[str | None, str | None], int] = {("shop", f"SELECT `c{i}`"): 2 for i in kept}
        if 0 < size <= 10:
            expected[None, None] = 2 * (10 - len(kept))
        assert digests() == expected
        assert [row["DIGEST"] for row in every(DIGESTS) if row["SCHEMA_NAME"] is None] == [None] * (0 < size <= 10)
        lost = 2 * (10 - len(kept)) * (again + 1) if size else 0
        assert status("digest_lost") in (lost, max(lost - 1, 0))
        assert losses().keys() <= {"Performance_schema_digest_lost"}
        assert sum(in_histograms().values()) == (20 if size else 0)
        assert in_histogram() == 20 * (again + 1)
        pfs.truncate(DIGESTS)
        assert every(DIGESTS) == []


def seen(row: dict[str, object], column: str) -> datetime:
    value = row[column]
    assert isinstance(value, int | datetime)
    return value if isinstance(value, datetime) else datetime(1970, 1, 1) + timedelta(microseconds=value)


@fresh_process()
def test_I7_first_and_last_seen() -> None:
    """I7: FIRST_SEEN <= LAST_SEEN, wall clock in microseconds, both within the test run; TRUNCATE restarts them."""
    epoch = datetime(1970, 1, 1)
    begin = epoch + timedelta(microseconds=time.time_ns() // 1000)
    run("select 1")
    time.sleep(0.01)
    run("select 2")
    end = epoch + timedelta(microseconds=time.time_ns() // 1000)
    (row,) = every(DIGESTS)
    first, last = seen(row, "FIRST_SEEN"), seen(row, "LAST_SEEN")
    assert begin <= first <= last <= end
    assert last - first >= timedelta(milliseconds=9)
    pfs.truncate(DIGESTS)
    run("select 3")
    (row,) = every(DIGESTS)
    assert last <= seen(row, "FIRST_SEEN") == seen(row, "LAST_SEEN")


SAMPLE = ("QUERY_SAMPLE_TEXT", "QUERY_SAMPLE_TIMER_WAIT")


def sample() -> tuple[str, int]:
    (row,) = every(DIGESTS)
    return row["QUERY_SAMPLE_TEXT"], row["QUERY_SAMPLE_TIMER_WAIT"]


@fresh_process("performance_schema_max_digest_sample_age={age}")
@pytest.mark.parametrize("age", [60, 0, 1])
def test_I8_the_sample_is_the_slowest_of_late(age: int) -> None:
    """I8: fast, slow, fast: the slow one. Older than the age: any replaces it; 0: it stays until a slower one comes."""
    run("select 1")
    assert sample()[0] == "select 1"
    run("select 2", seconds=0.03)
    assert sample()[0] == "select 2"
    (row,) = every(DIGESTS)
    assert row["QUERY_SAMPLE_TIMER_WAIT"] == row["MAX_TIMER_WAIT"] >= 30e9
    assert seen(row, "QUERY_SAMPLE_SEEN") == seen(row, "LAST_SEEN")
    run("select 3")
    assert sample()[0] == "select 2"
    time.sleep(1.2)
    run("select 4")
    assert sample()[0] == ("select 4" if age == 1 else "select 2")
    run("select 5", seconds=0.06)
    assert sample()[0] == "select 5"
    pfs.truncate(DIGESTS)
    run("select 6")  # the first one again
    assert sample()[0] == "select 6"
    run("select 'é' -- " + "x" * 2000, seconds=0.01)
    text = sample()[0]
    assert text.startswith("select 'é' -- xx")
    assert text.endswith("x...")
    assert len(text.encode()) == 1024


@fresh_process()
def test_I8_a_statement_that_is_not_timed_is_a_sample_if_there_is_none() -> None:
    """I8: the first one is, with no time; a timed one is slower."""
    key_of("statement", "i/query")
    instrument("statement/i/query", timed=False)
    run("select 1", "select 2")
    assert sample() == ("select 1", 0)
    instrument("statement/i/query", timed=True)
    run("select 3")
    assert sample()[0] == "select 3"


@fresh_process()
def test_I9_quantiles_are_bounds_of_the_histogram() -> None:
    """I9: QUANTILE_95/99/999 = upper bound of the first bucket whose cumulative count >= ceil(p x count); 0 if none is timed."""
    for i in range(100):
        run(f"select {i}", seconds=0.00002 * (i % 20) if i % 3 == 0 else 0)
        if i % 10 and i > 3:
            continue
        (row,) = every(DIGESTS)
        buckets = every(HISTOGRAMS)
        total = sum(bucket["COUNT_BUCKET"] for bucket in buckets)
        assert total == i + 1
        for column, per_mille in (("QUANTILE_95", 950), ("QUANTILE_99", 990), ("QUANTILE_999", 999)):
            wanted = math.ceil(per_mille * total / 1000)
            first = next(bucket for bucket in buckets if bucket["COUNT_BUCKET_AND_LOWER"] >= wanted)
            assert row[column] == first["BUCKET_TIMER_HIGH"], (column, i)
    instrument("statement/i/query", timed=False)
    run("select 1 from t")
    row = of_digest("select 1 from t")
    assert (row["COUNT_STAR"], row["QUANTILE_95"], row["QUANTILE_99"], row["QUANTILE_999"]) == (1, 0, 0, 0)


@fresh_process()
def test_I10_the_450_bounds() -> None:
    """I10: bucket 0 = [0, 10 us); then fifty to a power of ten; the last one is open-ended; each ends where the next begins."""
    bounds, bound = [0], 1e7
    for _ in range(449):
        bounds.append(int(bound))
        bound *= 1.04712854805089965
    assert bounds[:5] == [0, 10000000, 10471285, 10964781, 11481536]
    assert bounds[440:442] == [6025595860743779, 6309573444802144]
    run("select 1")
    for table in (HISTOGRAM, HISTOGRAMS):
        found = [(row["BUCKET_NUMBER"], row["BUCKET_TIMER_LOW"], row["BUCKET_TIMER_HIGH"]) for row in every(table)]
        assert found == list(zip(range(450), bounds, [*bounds[1:], 2**64 - 1], strict=True))


@fresh_process()
def test_I11_cumulative_counts_and_quantiles_of_buckets() -> None:
    """I11: COUNT_BUCKET_AND_LOWER is cumulative, BUCKET_QUANTILE that / total, 0 if empty; 450 rows, also for each digest; each
    statement is in the bucket of its time; what is not timed is in none."""
    assert len(every(HISTOGRAM)) == 450
    assert {(row["COUNT_BUCKET"], row["COUNT_BUCKET_AND_LOWER"], row["BUCKET_QUANTILE"]) for row in every(HISTOGRAM)} == {
        (0, 0, 0)
    }
    assert every(HISTOGRAMS) == []
    for i in range(20):
        run("select 1", "select a", seconds=0.0001 * i)
    key_of("statement", "i/untimed")
    instrument("statement/i/untimed", timed=False)
    Statement("i/untimed", "select 1").end()
    Statement("i/untimed", "select b").end()
    waits = {
        text: [row["TIMER_WAIT"] for row in rows(HISTORY, DIGEST_TEXT=text)] for text in ("SELECT ?", "SELECT `a`", "SELECT `b`")
    }
    waits = {text: [wait for wait in found if wait is not None] for text, found in waits.items()}
    everything = [wait for found in waits.values() for wait in found]
    assert len(everything) == 40
    assert len(every(HISTOGRAMS)) == 3 * 450
    tables = [(every(HISTOGRAM), everything)]
    tables += [(rows(HISTOGRAMS, DIGEST=of_digest(text.lower())["DIGEST"]), found) for text, found in waits.items() if found]
    for buckets, found in tables:
        total = 0
        for row in sorted(buckets, key=lambda row: row["BUCKET_NUMBER"]):
            inside = [wait for wait in found if row["BUCKET_TIMER_LOW"] <= wait < row["BUCKET_TIMER_HIGH"]]
            total += len(inside)
            assert (row["COUNT_BUCKET"], row["COUNT_BUCKET_AND_LOWER"]) == (len(inside), total)
            assert abs(row["BUCKET_QUANTILE"] - total / len(found)) < 1e-6
        assert total == len(found)
    assert {row["BUCKET_QUANTILE"] for row in rows(HISTOGRAMS, DIGEST=of_digest("select b")["DIGEST"])} == {0}


@fresh_process()
def test_I12_histograms_add_up_to_the_statements() -> None:
    """I12: global = timed statements, those without a digest included; by_digest = COUNT_STAR of that digest."""
    for _ in range(7):
        run("select 1", "select a from t", schema="shop")
        run("select 1")
        Statement("i/query").end()  # no text
        run("", " /* nothing */ ")  # no token
    assert in_histogram() == 7 * 6
    assert {(row["SCHEMA_NAME"], row["DIGEST"]): row["COUNT_STAR"] for row in every(DIGESTS)} == in_histograms()
    assert sum(in_histograms().values()) == 7 * 3
    assert one("events_statements_summary_global_by_event_name", EVENT_NAME="statement/i/query")["COUNT_STAR"] == 7 * 6
