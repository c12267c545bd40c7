"""pfs serve and a MariaDB get the same statements: tests/golden/statements_beside_mariadb.toml has them, and what may differ."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.python._programs.subject import subject
from tests.python.servers import mariadb

pytest.importorskip("sqlglot", reason="needs perfschema[mysql]")
pymysql = pytest.importorskip("pymysql", reason="needs perfschema[databases]")

from tests.python.serve.serving import WORK, serving  # noqa: E402

LISTED = tomllib.loads((Path(__file__).parents[2] / "golden" / "statements_beside_mariadb.toml").read_text())
MOST_THAT_DIFFER = 5
# Types of the protocol that clients turn into the same type of their language.
KINDS = {
    **dict.fromkeys((1, 2, 3, 8, 9), "integer"), **dict.fromkeys((0, 246), "decimal"), **dict.fromkeys((4, 5), "double"),
    **dict.fromkeys((7, 12), "moment"), **dict.fromkeys((15, 247, 248, 249, 250, 251, 252, 253, 254), "text"),
    10: "date", 11: "clock",
}  # fmt: skip


class Given(NamedTuple):
    """What a server has answered: titles with their kinds, or an error; and the rows."""

    error: int
    columns: dict[str, str]
    rows: list[tuple[Any, ...]]

    def is_like(self, other: Given) -> bool:
        return (self.error, list(self.columns.items())) == (other.error, list(other.columns.items()))


def given(client: Any, statement: str) -> Given:
    with client.cursor() as cursor:
        try:
            cursor.execute(statement)
        except pymysql.MySQLError as error:
            return Given(error.args[0], {}, [])
        columns = {column[0]: KINDS.get(column[1], str(column[1])) for column in cursor.description or ()}
        return Given(0, columns, list(cursor.fetchall()) if columns else [])


class Pair(NamedTuple):
    """A client of pfs and one of MariaDB."""

    here: Any
    there: Any

    def ask(self, statement: str) -> tuple[Given, Given]:
        for client in self:
            client.select_db("performance_schema")
        return given(self.here, statement), given(self.there, statement)


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    folder = tmp_path_factory.mktemp("beside")
    with mariadb() as there, subject(folder) as program:
        program.do(WORK)
        with serving(str(program.path), "--socket", str(folder / "s")) as here:
            yield here, there


@pytest.fixture
def pair(addresses: tuple[str, str]) -> Iterator[Pair]:
    one, other = (pymysql.connect(unix_socket=path, user="root", database="performance_schema") for path in addresses)
    with one, other:
        if not given(other, "SELECT VERSION()").rows[0][0].startswith("10.11."):
            pytest.skip("the list is that of MariaDB 10.11")
        yield Pair(one, other)


def statements(kind: str) -> list[str]:
    found: str = LISTED[kind]
    return found.strip().splitlines()


@pytest.mark.needs("mariadb")
@pytest.mark.parametrize("kind", ["alike", "others"])
def test_answers_are_alike(pair: Pair, kind: str) -> None:
    wrong = [(each, *answers) for each in statements(kind) if not (answers := pair.ask(each))[0].is_like(answers[1])]
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.needs("mariadb")
def test_values_are_alike(pair: Pair) -> None:
    asked = [(each, *pair.ask(f"SELECT {each}")) for each in statements("values")]
    wrong = [(each, here, there) for each, here, there in asked if here != there or here.error]
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.needs("mariadb")
def test_a_session_is_alike(pair: Pair) -> None:
    asked = [(each, *pair.ask(each)) for each in statements("session")]
    wrong = [(each, here, there) for each, here, there in asked if here != there]
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.needs("mariadb")
def test_answers_are_those_of_mysql(pair: Pair) -> None:
    for each in LISTED["mysql"]:
        here, there = pair.ask(each["sql"])
        assert (here.error, there.error) == (each.get("error", 0), each.get("refused", 0)), (each, here, there)
        if here.error or there.error:
            continue
        only_here, only_there = (
            [title for title in one.columns if title not in other.columns] for one, other in ((here, there), (there, here))
        )
        assert (only_here, only_there) == (each.get("has", []), each.get("lacks", [])), each
        if "EXPLAIN" not in each["sql"]:  # MariaDB has its numbers of rows as texts
            assert all(there.columns.get(title, kind) == kind for title, kind in here.columns.items()), (each, here, there)


@pytest.mark.needs("mariadb")
def test_what_differs_is_listed(pair: Pair) -> None:
    """A statement that has become alike is no longer listed, and no more differ than today."""
    for each in LISTED["differs"]:
        here, there = pair.ask(each["sql"])
        assert each["reason"]
        assert not here.is_like(there), f"{each['sql']} is alike: move it"
    count = len(statements("alike")) + len(LISTED["mysql"]) + len(LISTED["differs"])
    assert (count, len(LISTED["differs"]) <= MOST_THAT_DIFFER) == (169, True)
