"""``pfs run`` reads the statements of each client by its dialect: names in double quotes stay, values do not."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.python import servers
from tests.python.run.test_run import own_folder, pytestmark, report_of

__all__ = ["own_folder", "pytestmark"]  # test_run's fixture and mark hold here, too


@pytest.fixture(scope="module")
def postgresql() -> Iterator[str]:
    with servers.postgresql() as given:
        yield f"{given} dbname=shop"


def digests_of(tmp_path: Path, program: str, *arguments: str) -> dict[str, int]:
    """Returns the counts by the text of the digest."""
    (script := tmp_path / "program.py").write_text(program)
    return {row["digest_text"]: row["count"] for row in report_of(tmp_path, sys.executable, script, *arguments)["statements"]}


SQLITE = r"""
import sqlite3
db = sqlite3.connect(":memory:", isolation_level=None)
for table in ("orders", "users"):
    db.execute(f'CREATE TABLE "{table}" ("id" INTEGER PRIMARY KEY, "name" TEXT)')
    for i in range(5):
        db.execute(f'INSERT INTO "{table}" ("id", "name") VALUES (?, ?)', (i, "x"))
    db.execute(f'SELECT COUNT(*) AS "__count" FROM "{table}"').fetchall()
    db.execute(f'DELETE FROM "{table}" WHERE "id" = ?', (1,))
    for value in ("alpha", "beta"):
        db.execute(rf"SELECT 1 FROM [{table}] WHERE name LIKE '%a\%%' ESCAPE '\' AND name <> '{value}'").fetchall()
for number in range(3):
    db.execute(f'SAVEPOINT "s{number}_x1"')
    db.execute(f'RELEASE SAVEPOINT "s{number}_x1"')
"""


def test_statements_of_sqlite(tmp_path: Path) -> None:
    found = digests_of(tmp_path, SQLITE)
    expected = {"SAVEPOINT ?": 3, "RELEASE SAVEPOINT ?": 3}
    for table in ("orders", "users"):
        expected |= {
            f"CREATE TABLE `{table}` ( `id` INTEGER PRIMARY KEY , `name` TEXT )": 1,
            f"INSERT INTO `{table}` ( `id` , `name` ) VALUES (...)": 5,
            f"SELECT COUNT ( * ) AS `__count` FROM `{table}`": 1,
            f"DELETE FROM `{table}` WHERE `id` = ?": 1,
            f"SELECT ? FROM `{table}` WHERE NAME LIKE ? ESCAPE ? AND NAME != ?".replace("NAME", "`name`"): 2,
        }
    assert found == expected


LIBPQ = r"""
import sys, psycopg2
db = psycopg2.connect(sys.argv[1])
db.autocommit = True
cursor = db.cursor()
for table in ("Ord", "Usr"):
    cursor.execute(f'create table "{table}" ("Id" int, d jsonb)')
    cursor.execute(f'insert into "{table}" values (1, %s)', ('{"a": {"b": 1}}',))
    cursor.execute(f"select d #>> '{{a,b}}' from \"{table}\" where \"Id\" = 1")
    for value in ("alpha", "beta"):
        cursor.execute(rf"select 1 from \"{table}\" where 'a' like 'a\%%' escape '\' and 'x' <> '{value}'".replace('\\"', '"'))
for count in (1, 2, 30):
    cursor.execute('select 1 from "Ord" where "Id" in (' + ", ".join(["%s::integer"] * count) + ")", [1] * count)
    cursor.execute('insert into "Ord" values ' + ", ".join(["(%s, default)"] * count), [1] * count)
"""


def test_statements_of_libpq(tmp_path: Path, postgresql: str) -> None:
    pytest.importorskip("psycopg2", reason="psycopg2 is not installed: pip install '.[databases]'")
    found = digests_of(tmp_path, LIBPQ, postgresql)
    expected = {
        "SELECT ? FROM `Ord` WHERE `Id` IN (...)": 3,
        "INSERT INTO `Ord` VALUES (...)": 2,
        "INSERT INTO `Ord` VALUES (...) /* , ... */": 2,
        "INSERT INTO `Usr` VALUES (...)": 1,
    }
    for table in ("Ord", "Usr"):
        expected |= {
            f"CREATE TABLE `{table}` ( `Id` INTEGER , `d` JSONB )": 1,
            f"SELECT `d` #>> ? FROM `{table}` WHERE `Id` = ?": 1,
            f"SELECT ? FROM `{table}` WHERE ? LIKE ? ESCAPE ? AND ? != ?": 2,
        }
    assert {text: count for text, count in found.items() if "Ord" in text or "Usr" in text} == expected


DJANGO = """
import django
from django.conf import settings
settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions"],
    USE_TZ=True,
    SECRET_KEY="x",
)
django.setup()
from django.contrib.auth.models import Group, User
from django.core.management import call_command
from django.db import transaction
call_command("migrate", verbosity=0)
for i in range(10):
    Group.objects.create(name=f"marker{i}")
    User.objects.create(username=f"marker{i}", email=f"marker{i}@x.org")
    list(User.objects.filter(email__contains=f"marker{i}").filter(is_staff=False))
    list(User.objects.filter(email__contains=f"marker{i}").order_by("-id")[:3])
    list(User.objects.filter(email__contains="marker", username__startswith="marker").values("id"))
    list(Group.objects.filter(id__in=range(i + 1)))
    with transaction.atomic():
        with transaction.atomic():
            Group.objects.filter(name=f"marker{i}").update(name=f"markers{i}")
User.objects.count(), Group.objects.count()
User.objects.all().delete(), Group.objects.all().delete()
"""


@pytest.mark.skipif(importlib.util.find_spec("django") is None, reason="Django is not installed")
def test_statements_of_django(tmp_path: Path) -> None:
    found = digests_of(tmp_path, DJANGO)
    assert len(found) > 40
    of_no_table = [text for text in found if any(part in text for part in (" FROM ?", " INTO ?", "UPDATE ?", "TABLE ?", "ON ?"))]
    assert of_no_table == []
    assert [text for text in found if "marker" in text or "'" in text] == []
    assert {text: count for text, count in found.items() if text.startswith(("SAVEPOINT", "RELEASE", "UPDATE `auth_group`"))} == {
        "SAVEPOINT ?": 10,
        "RELEASE SAVEPOINT ?": 10,
        "UPDATE `auth_group` SET `name` = ? WHERE `auth_group` . `name` = ?": 10,
    }
    for count in ("SELECT COUNT ( * ) AS `__count` FROM `auth_user`", "SELECT COUNT ( * ) AS `__count` FROM `auth_group`"):
        assert found[count] == 1
    contains = [text for text in found if "LIKE ? ESCAPE ?" in text]
    assert [found[text] for text in contains] == [10, 10, 10]
    assert sum(count for text, count in found.items() if "`id` IN (...)" in text and text.startswith("SELECT `auth_group`")) == 10
