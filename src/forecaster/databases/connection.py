"""Connections to databases: addresses, passwords, limits of time, and failures as errors."""

import os
import re
import sqlite3
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import Any
from urllib.parse import SplitResult, parse_qsl, quote, urlsplit

from forecaster.errors import (
    ConfigError,
    DataError,
    ForecasterError,
    RunError,
    name_some,
    need_extra,
    plain_text,
)

BACKENDS = {
    "postgresql": "postgres", "postgres": "postgres", "mariadb": "mysql", "mysql": "mysql",
    "duckdb": "duckdb", "sqlite": "sqlite",
}  # fmt: skip
DRIVERS = {"postgres": ("psycopg", "databases"), "mysql": ("MySQLdb", "mysql")}
FILES = ("duckdb", "sqlite")  # databases in a file, without a server
STORES = ("s3", "gs", "gcs", "http", "https", "file")  # addresses of files
PASSWORD, PASSWORD_FILE = "FORECASTER_DATABASE_PASSWORD", "FORECASTER_DATABASE_PASSWORD_FILE"
SECRET = re.compile(r"pass|pwd|secret|token|key", re.IGNORECASE)
QUERY_SECONDS, LOCK_SECONDS, CONNECT_SECONDS = 3600, 60, 10
TABLE_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)?")  # schema, if any, and name
MARKS = {"postgres": "%s", "mysql": "%s", "duckdb": "?", "sqlite": "?"}  # of values in statements

_SETTINGS = {  # statements that end what takes too long, by backend
    "postgres": ("SET statement_timeout = '{query}s'", "SET lock_timeout = '{lock}s'"),
    "mysql": (
        "SET time_zone = '+00:00'",  # Ibis asks for UTC by name, which many servers do not know
        "SET lock_wait_timeout = {lock}",
        "SET innodb_lock_wait_timeout = {lock}",
        "/*M! SET max_statement_time = {query} */",  # of MariaDB alone
        "/*M! SET join_cache_level = 4 */",  # it joins by hash only if asked
    ),
}
_FAILURES: tuple[tuple[str, type[ForecasterError], str], ...] = (  # codes of SQL, or texts
    (
        r"^2005|resolve host|could not translate|Unknown server host",
        ConfigError,
        "check the host in the address",
    ),
    (
        r'^3D000|^1044|^1049|database "[^"]*" does not exist',
        ConfigError,
        "check the name of the database in the address, and that its user may use it",
    ),
    (
        r"^42501|^114[23]|permission denied|readonly database|unable to open",
        ConfigError,
        "nothing is written: grant this to the user of the address, or give another one",
    ),
    (
        r"^28|^1045|authentication failed|no password supplied|Access denied",
        ConfigError,
        f"give the user in the address, and the password in {PASSWORD}, {PASSWORD_FILE}, or where "
        "the database's own programs look for it (PGPASSWORD, ~/.pgpass, ~/.my.cnf)",
    ),
    (
        r"^55P03|^1205|lock timeout|Lock wait|is locked|set lock on file",
        RunError,
        "another program holds a lock; nothing is written: end what holds it, or try again later",
    ),
    (
        r"^57014|^1969|^3024|statement timeout|max_statement_time|interrupt",
        RunError,
        "the query took too long; nothing is written: narrow it, add an index, or allow more "
        "seconds with ?timeout=SECONDS in the address",
    ),
    (
        r"^42P10|ON CONFLICT|conflict target",
        DataError,
        "nothing is written: give the table a unique index of (unique_id, ds, cutoff)",
    ),
    (
        r"^42P01|^42703|^1146|^1054|does not exist|doesn't exist|no such (table|column)"
        r"|not found|Unknown column|no column named",
        DataError,
        "the table is not, or no longer, what the query expects: compare their columns",
    ),
    (
        r"^08|^57P|^2002|^2003|^2006|^2013|server closed|connection|gone away|Can't connect"
        r"|could not connect|Lost|timeout expired",
        RunError,
        "nothing is written: see that the server answers, and run the same command again",
    ),
    (
        r"not a (valid DuckDB )?database",
        DataError,
        "give the path of a database of this kind",
    ),
)


@dataclass(frozen=True)
class Database:
    """The address of a database, which holds no password."""

    url: str

    @classmethod
    def parse(cls, text: str) -> "Database":
        """Return the address `postgresql://user@host:port/database`; passwords are refused."""
        address = _split(text)
        secret = [name for name, _ in parse_qsl(address.query) if SECRET.search(name)]
        if address.password is not None or secret:
            raise ConfigError(
                f"{cls(text).name}: a password in an address is seen in lists of processes and "
                f"saved in recipes; leave it out, and set {PASSWORD} or {PASSWORD_FILE}"
            )
        timeout = dict(parse_qsl(address.query)).get("timeout", "1")
        if not (timeout.isascii() and timeout.isdigit() and int(timeout)):
            raise ConfigError(f"{cls(text).name}: timeout={timeout}: give whole seconds above 0")
        return cls(text)

    @property
    def backend(self) -> str:
        """The name of Ibis for this kind of database."""
        scheme = _split(self.url).scheme
        return BACKENDS.get(scheme, scheme)

    @property
    def name(self) -> str:
        """The address without user, password and settings, for messages."""
        address = _split(self.url)
        place = address.netloc.rpartition("@")[2]
        return f"{address.scheme}://{place}{address.path}"

    @property
    def seconds(self) -> int:
        """The longest time of one query: `?timeout=` of the address."""
        return int(dict(parse_qsl(_split(self.url).query)).get("timeout", QUERY_SECONDS))


def is_database(text: object) -> bool:
    """Whether a text is the address of a database, not of a file."""
    scheme, mark, _ = str(text).partition("://")
    return bool(mark) and scheme.lower() not in STORES


@contextmanager
def connect(database: Database, *, writing: bool = False) -> Iterator[Any]:
    """Open a connection of Ibis, which is closed afterwards; failures are errors of the database.

    Args:
        database: the address.
        writing: whether tables may change; else the file or transaction is read only.
    """
    ibis = need_extra("ibis", extra="ingest")
    if database.backend in DRIVERS:
        need_extra(*DRIVERS[database.backend])
    with explained(database):
        connection = _open(ibis, database, writing)
        try:
            _set(connection, database)
            with _interrupted(connection, database):
                yield connection
        finally:
            connection.disconnect()


@contextmanager
def explained(database: Database) -> Iterator[None]:
    """Turn the failures of drivers into errors that name the database and what to do."""
    try:
        yield
    except (ForecasterError, OSError, MemoryError, AttributeError, TypeError, LookupError):
        raise  # no failure of a driver
    except Exception as error:  # each driver has its own error types
        code = getattr(error, "sqlstate", None) or str(next(iter(error.args), ""))
        secrets = _password(), os.environ.get("PGPASSWORD"), os.environ.get("MYSQL_PWD")
        text = plain_text(error, *secrets)
        if type(error).__name__ == "TableNotFound":  # of Ibis, which gives the name alone
            text = f"table {text} not found"
        kinds = (
            k for k in _FAILURES if re.search(k[0], code) or re.search(k[0], text, re.IGNORECASE)
        )
        _, kind, advice = next(kinds, ("", DataError, "see that the query is valid there"))
        # not `from error`: what a driver says is shown once, without secrets
        raise kind(f"{database.name}: {text}; {advice}") from None


def _open(ibis: Any, database: Database, writing: bool) -> Any:
    address, backend = _split(database.url), database.backend
    settings: dict[str, Any] = {k: v for k, v in parse_qsl(address.query) if k != "timeout"}
    if backend in FILES:
        return _open_file(ibis, database, writing)
    if (password := _password()) is not None:
        settings["password"] = password
    if backend == "mysql":
        return _open_mysql(ibis, address, settings)
    if backend == "postgres":
        settings = {"connect_timeout": str(CONNECT_SECONDS), **settings}
    try:
        return ibis.connect(address._replace(scheme=backend, query="").geturl(), **settings)
    except ValueError:
        names = name_some(sorted({*BACKENDS} - {"postgres"}))
        raise ConfigError(
            f"{database.name}: unknown kind of database; tried are {names}, and others that Ibis "
            "has by their name"
        ) from None
    except ImportError:
        raise ConfigError(
            f"{database.name}: this needs Ibis for {backend}, which is not installed: "
            f"pip install 'ibis-framework[{backend}]'"
        ) from None


def _open_file(ibis: Any, database: Database, writing: bool) -> Any:
    address = _split(database.url)
    path = Path(address.netloc + address.path)
    if path.is_dir() or not (path.parent.is_dir() if writing else path.is_file()):
        noun = "folder" if writing else "file"
        raise DataError(f"{database.name}: no such {noun}; give the path of a database")
    if database.backend == "duckdb":
        return ibis.duckdb.connect(str(path), read_only=not writing)
    mode, timeout = "rwc" if writing else "ro", _lock_seconds(database)
    file = sqlite3.connect(f"file:{quote(str(path))}?mode={mode}", timeout, uri=True)
    return ibis.sqlite.from_connection(file)


def _open_mysql(ibis: Any, address: SplitResult, settings: dict[str, Any]) -> Any:
    """Open a connection whose password may come from MYSQL_PWD or the client's option files.

    Ibis gives the driver an empty password, so that it looks for no other.
    """
    driver = need_extra(*DRIVERS["mysql"])
    defaults = {"connect_timeout": CONNECT_SECONDS, "charset": "utf8mb4", "autocommit": True}
    place = {"host": address.hostname, "port": address.port, "user": address.username}
    place["database"] = address.path.strip("/")
    endpoint = {name: value for name, value in place.items() if value}
    connection = driver.connect(**defaults, **endpoint, read_default_group="client", **settings)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Unable to set session timezone")  # _SETTINGS do
        return ibis.mysql.from_connection(connection)


def _set(connection: Any, database: Database) -> None:
    """Set the longest times of a query and of waiting for a lock, and UTC where it may be not."""
    query, lock = database.seconds, _lock_seconds(database)
    for statement in _SETTINGS.get(database.backend, ()):
        connection.raw_sql(statement.format(query=query, lock=lock)).close()


@contextmanager
def _interrupted(connection: Any, database: Database) -> Iterator[None]:
    """End what takes too long in a file, whose driver has no limit."""
    if database.backend not in FILES:
        yield
        return
    watch = Timer(database.seconds, connection.con.interrupt)
    watch.daemon = True
    watch.start()
    try:
        yield
    finally:
        watch.cancel()


def _lock_seconds(database: Database) -> int:
    return max(min(LOCK_SECONDS, database.seconds // 2), 1)


def _password() -> str | None:
    """Return the password of the environment, or of the file that it names."""
    if os.environ.get(PASSWORD):
        return os.environ[PASSWORD]
    file = os.environ.get(PASSWORD_FILE)
    if not file:
        return None
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{PASSWORD_FILE}: {file} cannot be read ({error})") from error


def open_table(connection: Any, name: str) -> Any:
    """Return a table of Ibis by its name, with its schema if need be."""
    schema, _, table = name.rpartition(".")
    return connection.table(table, database=schema or None)


def _split(url: str) -> SplitResult:
    try:
        address = urlsplit(url)
        _ = address.port
    except ValueError:
        raise ConfigError(
            "the address of the database cannot be read; give postgresql://user@host:port/database"
        ) from None
    if "@" in address.path:  # of a password with a slash
        raise ConfigError(f"the address of the {address.scheme} database has an @ in its path")
    return address
