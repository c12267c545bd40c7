"""Says which dialect of SQL a driver or an engine speaks, by its name."""

from __future__ import annotations

from typing import Any

_MODULES = {
    "mysql": "MySQLdb aiomysql asyncmy cymysql mariadb mysql pymysql",
    "postgresql": "aiopg asyncpg pg8000 pgdb psycopg psycopg2 psycopg2cffi psycopg_c redshift_connector",
    "sqlite": "aiosqlite libsql pysqlite2 pysqlite3 sqlcipher3 sqlite3",
    "tsql": "mssql_python pymssql pyodbc",
    "oracle": "cx_Oracle oracledb",
    "duckdb": "duckdb",
}
_BY_MODULE = {module: dialect for dialect, modules in _MODULES.items() for module in modules.split()}
_ENGINES = {"cockroachdb": "postgresql", "mariadb": "mysql", "mssql": "tsql", "redshift": "postgresql"}


def dialect_of_connection(plain: Any) -> str | None:
    """Returns the dialect of a driver's connection, by the package of its class. None: the driver is not known."""
    for each in type(plain).__mro__:
        dialect = _BY_MODULE.get(each.__module__.partition(".")[0].removeprefix("_"))
        if dialect is not None:
            return dialect
    return None


def dialect_of_engine(name: str) -> str | None:
    """Returns the dialect of an engine of SQLAlchemy. None: its name is not known."""
    dialect = _ENGINES.get(name, name)
    return dialect if dialect in _MODULES else None
