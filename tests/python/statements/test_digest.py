"""Statements that differ in literals, blanks and comments only are one: facts I2 to I4, through pfs.digest."""

from __future__ import annotations

import hashlib

import pytest

import pfs

CASES: dict[str, list[tuple[str | bytes, str]]] = {
    "I3: literals": [
        ("select 1", "SELECT ?"),
        ("SELECT 1.5, .5, 1., 1e3, 1e-3, 1.5E+10, 0", "SELECT ?, ..."),
        ("select .5e1 from t", "SELECT ? FROM `t`"),
        ("select 'a'", "SELECT ?"),
        ("select 'it''s', 'a\\'b', '\\\\', ''", "SELECT ?, ..."),
        ('select "it""s \\" here"', "SELECT ?"),
        ("select 'a' 'b'\n'c', 1", "SELECT ?, ..."),
        ("select 'a' \"b\" from t", "SELECT ? FROM `t`"),
        ("select 1 'name'", "SELECT ? ?"),
        ("select n'x', N'x', x'4D', X'4d', b'01', B'1', E'\\n', _utf8mb4'x'", "SELECT ?, ..."),
        ("select 0x1F, 0b101, 0XaB", "SELECT ?, ..."),
        ("select x 'a', 0x, 0xG, 0b2", "SELECT `x` ? , `0x` , `0xG` , `0b2`"),
        ("select 'never closed from t", "SELECT ?"),
        ("select $$it's$$, $tag$ $$ $tag$, 2", "SELECT ?, ..."),
    ],
    "I3: parameters are values": [
        ("select * from t where a = ?", "SELECT * FROM `t` WHERE `a` = ?"),
        ("select * from t where a in (?, ?2, $1, :name, :1, %s, %(name)s)", "SELECT * FROM `t` WHERE `a` IN (...)"),
        ("select a %s from t", "SELECT `a` % `s` FROM `t`"),
        ("select a[1:2], a[:b]", "SELECT `a` [ ? : ? ] , `a` [ ? ]"),
        ("select a %% 3, b % 3", "SELECT `a` % ? , `b` % ?"),
    ],
    "I3: lists": [
        ("select 1, 2 from t", "SELECT ?, ... FROM `t`"),
        ("select 1, 2, 3, 4 from t", "SELECT ?, ... FROM `t`"),
        ("select a, 1, 2, b, 3 from t", "SELECT `a` , ?, ... , `b` , ? FROM `t`"),
        ("select * from t limit 1, 2", "SELECT * FROM `t` LIMIT ?, ..."),
        ("select * from t limit 1 offset 2", "SELECT * FROM `t` LIMIT ? OFFSET ?"),
        ("select func(3,4)", "SELECT `func` (...)"),
        ("select func(3)", "SELECT `func` (?)"),
        ("select func()", "SELECT `func` ( )"),
        ("select f(1, a, 2, 3)", "SELECT `f` ( ? , `a` , ?, ... )"),
        ("select f(g(1, 2), h(3))", "SELECT `f` ( `g` (...) , `h` (?) )"),
    ],
    "I3: rows": [
        ("insert into t values (1)", "INSERT INTO `t` VALUES (?)"),
        ("insert into t values (1), (2)", "INSERT INTO `t` VALUES (?) /* , ... */"),
        ("insert into t values (1),(2),(3),(4)", "INSERT INTO `t` VALUES (?) /* , ... */"),
        ("insert into t values (1, 2)", "INSERT INTO `t` VALUES (...)"),
        ("insert into t values (1, 2, 3), (4, 5, 6)", "INSERT INTO `t` VALUES (...) /* , ... */"),
        ("insert into t (a, b) values ('x', NULL), (NULL, -1)", "INSERT INTO `t` ( `a` , `b` ) VALUES (...) /* , ... */"),
        ("insert into t values (1), (2, 3)", "INSERT INTO `t` VALUES (?) , (...)"),
        ("insert into t values (1, 2), (3), (4)", "INSERT INTO `t` VALUES (...) , (?) /* , ... */"),
        ("insert into t values (a, 1), (2, 3)", "INSERT INTO `t` VALUES ( `a` , ? ) , (...)"),
        ("select ((1)), ((1, 2), (3, 4))", "SELECT ( (?) ) , ( (...) /* , ... */ )"),
    ],
    "I3: IN lists": [
        ("select * from t where a in (1)", "SELECT * FROM `t` WHERE `a` IN (...)"),
        ("select * from t where a in (1, 2, 3)", "SELECT * FROM `t` WHERE `a` IN (...)"),
        ("select * from t where a not in ('x', null)", "SELECT * FROM `t` WHERE `a` NOT IN (...)"),
        ("select * from t where a in (1, b)", "SELECT * FROM `t` WHERE `a` IN ( ? , `b` )"),
        ("select * from t where (a, b) in ((1, 2), (3, 4))", "SELECT * FROM `t` WHERE ( `a` , `b` ) IN ( (...) /* , ... */ )"),
        ("select * from t where a in (select 1)", "SELECT * FROM `t` WHERE `a` IN ( SELECT ? )"),
    ],
    "I3: NULL is a value where a value stands": [
        ("select NULL", "SELECT ?"),
        ("select null, NULL, 1, Null", "SELECT ?, ..."),
        ("insert into t values (NULL)", "INSERT INTO `t` VALUES (?)"),
        ("update t set a = NULL, b = f(null, 1)", "UPDATE `t` SET `a` = ? , `b` = `f` (...)"),
        ("select 1 is null, 2 is not null", "SELECT ? IS NULL , ? IS NOT NULL"),
        (
            "create table x (a int default null, b int not null default 1, c int null)",
            "CREATE TABLE `x` ( `a` INTEGER DEFAULT ? , `b` INTEGER NOT NULL DEFAULT ? , `c` INTEGER NULL )",
        ),
        ("foreign key (a) references t (a) on delete set null", "FOREIGN KEY ( `a` ) REFERENCES `t` ( `a` ) ON DELETE SET NULL"),
        ("select a <=> null", "SELECT `a` <=> ?"),
    ],
    "I4: a sign in front of a literal is a part of it": [
        ("select -1 from t", "SELECT ? FROM `t`"),
        ("select +1 from t", "SELECT ? FROM `t`"),
        ("select " + "+" * 48 + "1 from t", "SELECT ? FROM `t`"),
        ("select " + "-" * 48 + "1 from t", "SELECT ? FROM `t`"),
        ("select - + - 1 from t", "SELECT ? FROM `t`"),
        ("a = -1", "`a` = ?"),
        ("insert into t values (0, -1, +1)", "INSERT INTO `t` VALUES (...)"),
        ("select * from t where a between -1 and -2 or not -3", "SELECT * FROM `t` WHERE `a` BETWEEN ? AND ? OR NOT ?"),
        ("select a * -1, (-2), case when -1 then -2 else -3 end", "SELECT `a` * ? , (?) , CASE WHEN ? THEN ? ELSE ? END"),
        ("pragma cache_size = -2000", "PRAGMA `cache_size` = ?"),
        ("select * from t limit -1 offset -1", "SELECT * FROM `t` LIMIT ? OFFSET ?"),
    ],
    "I4: a sign between operands stays": [
        ("b - 1", "`b` - ?"),
        ("select 0+1 from t", "SELECT ? + ? FROM `t`"),
        ("select 0-1 from t", "SELECT ? - ? FROM `t`"),
        ("select 0 " + "+" * 48 + "1 from t", "SELECT ? + ? FROM `t`"),
        ("select 0 " + "-" * 48 + "1 from t", "SELECT ? - ? FROM `t`"),
        ("select 1--1", "SELECT ? - ?"),
        ("select f(1) - 1, (a) + 1, `a`-1", "SELECT `f` (?) - ? , ( `a` ) + ? , `a` - ?"),
        ("select a-b, a+b, -a, -b, +a, +b from t", "SELECT `a` - `b` , `a` + `b` , - `a` , - `b` , + `a` , + `b` FROM `t`"),
        ("select - 'x', - ?, - null, - - a", "SELECT - ? , - ? , - ? , - - `a`"),
    ],
    "I3: comments and blanks vanish": [
        ("  select\t1\r\n\f+\v1  ", "SELECT ? + ?"),
        ("select 1 /* inline */ + 1", "SELECT ? + ?"),
        ("select 1+\n/*\nmore lines * / **/1", "SELECT ? + ?"),
        ("select 1 -- the rest 'is\n+ 2", "SELECT ? + ?"),
        ("select 1 --the rest\n+ 2", "SELECT ? + ?"),
        ("---- head ----\nselect 1", "SELECT ?"),
        ("select 1 # the rest\n+ 2#", "SELECT ? + ?"),
        ("select 1 --", "SELECT ?"),
        ("select 1 /* never closed", "SELECT ?"),
        ("select /**/1/***/,/*/ */2", "SELECT ?, ..."),
        ("select /*+ hint(a) */ 1", "SELECT ?"),
        ("select /*! straight_join */ 1 /*!50100 + 2 */ + 3", "SELECT STRAIGHT_JOIN ? + ? + ?"),
        ("/*!40101 set names utf8 */;", "SET NAMES `utf8`"),
        ("select a */ b", "SELECT `a` * / `b`"),
        (b"select\x001\x00", "SELECT ?"),
        ("", ""),
        (" /* nothing */ ; ;", ""),
    ],
    "I3: a ';' at the end is dropped": [
        ("select 1;", "SELECT ?"),
        ("select 1 ; ; -- done", "SELECT ?"),
        ("create procedure p1() begin select * from t; end;", "CREATE PROCEDURE `p1` ( ) BEGIN SELECT * FROM `t` ; END"),
    ],
    "I3: names are quoted, keywords in upper case": [
        ("Select A.b, a.`c`, `d``e`, `select` from T as x", "SELECT `A` . `b` , `a` . `c` , `d``e` , `select` FROM `T` AS `x`"),
        ("select t.select, t . from, order.x, t.*", "SELECT `t` . `select` , `t` . `from` , `order` . `x` , `t` . *"),
        ('select "a"."b c", x."y" from "s".t', "SELECT `a` . `b c` , `x` . `y` FROM `s` . `t`"),
        ("select t.1a, 2b, t.5, 1e, `1`", "SELECT `t` . `1a` , `2b` , `t` . `5` , `1e` , `1`"),
        ("select.5", "`select` . `5`"),
        ("select a$b, _c, d1", "SELECT `a$b` , `_c` , `d1`"),
        ("select größe, 名前 from таблица", "SELECT `größe` , `名前` FROM `таблица`"),
        (b"select a\xff\xc3 from t", "SELECT `a\ufffd\ufffd` FROM `t`"),
        ("select `never closed", "SELECT `never closed`"),
        ("select ``", "SELECT ``"),
        ("truncate table performance_schema.x", "TRUNCATE TABLE `performance_schema` . `x`"),
    ],
    "I3: functions are keywords where they are called": [
        ("select count(*), max (a), count, max from t", "SELECT COUNT ( * ) , MAX ( `a` ) , `count` , `max` FROM `t`"),
        ("select now(), my_function(1)", "SELECT NOW ( ) , `my_function` (?)"),
    ],
    "I3: other spellings of one word": [
        ("create database d", "CREATE SCHEMA `d`"),
        ("create table t (a int, c char(4))", "CREATE TABLE `t` ( `a` INTEGER , `c` CHARACTER (?) )"),
        ("select distinctrow a from t where a rlike 'x'", "SELECT DISTINCT `a` FROM `t` WHERE `a` REGEXP ?"),
        ("select * from t where b <> 1 and c != 2", "SELECT * FROM `t` WHERE `b` != ? AND `c` != ?"),
    ],
    "I3: variables": [
        ("set @a := 1, @b=2", "SET @? := ? , @? = ?"),
        ("select @'a b', @`c`, @a.b, @@version_comment limit 1", "SELECT @? , @? , @? , @@`version_comment` LIMIT ?"),
        ("select @@session.sql_mode, @@global . x, @@`y`", "SELECT @@SESSION . `sql_mode` , @@GLOBAL . `x` , @@`y`"),
        ("grant all on *.* to 'u'@'%'", "GRANT ALL ON * . * TO ? @?"),
        ("select a @ b", "SELECT `a` @ `b`"),
    ],
    "I3: operators": [
        ("a<=>b<=c>=d<>e!=f<<g>>h", "`a` <=> `b` <= `c` >= `d` != `e` != `f` << `g` >> `h`"),
        ("h||i&&j->k->>l:=m=>n==o::p", "`h` || `i` && `j` -> `k` ->> `l` := `m` => `n` == `o` :: `p`"),
        ("a<b>c|d&e^f~g!h*i/j%k+l-m", "`a` < `b` > `c` | `d` & `e` ^ `f` ~ `g` ! `h` * `i` / `j` % `k` + `l` - `m`"),
        ("[a]{b}\\ :c $ .", "[ `a` ] { `b` } \\ : `c` $ ."),
    ],
}  # fmt: skip


@pytest.mark.parametrize("fact", CASES)
def test_digest_text(fact: str) -> None:
    """I3, I4: what a statement becomes."""
    assert len(CASES[fact]) > 1
    found = {statement: pfs.digest(statement)[1] or "" for statement, _ in CASES[fact]}
    assert found == dict(CASES[fact])


def test_digest_is_sha256_of_the_tokens() -> None:
    """I2: 64 hexadecimal digits, equal for equal forms; of nothing there is no digest."""
    first, text = pfs.digest("select a from t where b = 1")
    second = pfs.digest(b" SELECT  a FROM `t` /* x */ WHERE b = 'two';")
    assert (first, text) == second
    assert first is not None
    assert len(first) == len(hashlib.sha256().hexdigest())
    assert set(first) <= set("0123456789abcdef")
    assert pfs.digest("select a from t where c = 1")[0] != first
    assert pfs.digest("") == pfs.digest(" ;;") == (None, None)


def test_digest_of_a_cut_text() -> None:
    """I2: what is behind max_digest_length makes no difference; the text ends there, without dots. Limit 0: no digest."""
    names = ", ".join(f"column_{i}" for i in range(200))
    whole = pfs.digest(f"select {names} from t", 1 << 20)[1]
    first, cut = pfs.digest(f"select {names} from t")
    assert whole is not None
    assert cut is not None
    assert len(cut) < len(whole)
    assert whole.startswith(cut)
    assert not cut.endswith("...")
    assert pfs.digest(f"select {names} from u") == (first, cut)
    assert pfs.digest(f"select {names} from u", 1 << 20)[1] != whole
    many = ", ".join(map(str, range(10_000)))
    assert pfs.digest(f"select a from t where a in ({many})", 16)[1] == "SELECT `a` FROM `t` WHERE `a` IN (...)"
    assert pfs.digest("select 1", 0) == (None, None)
    assert pfs.digest("select 1", 1)[1] == "SELECT"


def test_bad_limits() -> None:
    for limit in (-1, 1048577):
        with pytest.raises(pfs.InvalidValue, match="legal is a number from 0 to 1048576"):
            pfs.digest("select 1", limit)
