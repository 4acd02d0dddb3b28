import sys
from pathlib import Path

import pytest

from forecaster.databases.connection import (
    PASSWORD as PASSWORD_VARIABLE,
)
from forecaster.databases.connection import (
    Database,
    connect,
    explained,
    is_database,
)
from forecaster.databases.query import Query
from forecaster.errors import ConfigError, DataError, RunError
from tests.servers import PASSWORD, Server


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://owner:geheim@host/db",
        "postgresql://owner@host/db?password=geheim",
        "snowflake://owner@host/db?private_key=geheim",
        "postgresql://owner:1/geheim@host/db",
        "postgresql://owner:ge/heim@host/db",
    ],
)
def test_a_password_in_an_address_is_refused_and_not_repeated(address: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        Database.parse(address)
    assert "heim" not in str(refusal.value)


def test_the_name_of_a_database_has_neither_user_nor_settings() -> None:
    database = Database.parse("postgresql://owner@host:5433/shop?sslmode=require&timeout=7")
    assert database.name == "postgresql://host:5433/shop"
    assert (database.backend, database.seconds) == ("postgres", 7)
    assert Database.parse("mariadb://host/shop").backend == "mysql"


def test_addresses_of_files_are_no_databases() -> None:
    assert is_database("postgresql://host/db")
    assert not any(map(is_database, ["trips.csv", Path("a/b"), "s3://a/b.csv", "https://a/b.csv"]))


def test_a_time_limit_is_a_whole_number_of_seconds() -> None:
    with pytest.raises(ConfigError, match="timeout=soon: give whole seconds"):
        Database.parse("postgresql://host/db?timeout=soon")


def test_an_unknown_kind_of_database_names_those_that_were_tried() -> None:
    with (
        pytest.raises(ConfigError, match="tried are duckdb, mariadb, mysql, postgresql, sqlite"),
        connect(Database.parse("oracel://host/db")),
    ):
        pass


def test_a_file_that_does_not_exist_is_not_created(tmp_path: Path) -> None:
    for kind in ("sqlite", "duckdb"):
        path = tmp_path / f"none.{kind}"
        with (
            pytest.raises(DataError, match="no such file"),
            connect(Database.parse(f"{kind}://{path}")),
        ):
            pass
        assert not path.exists()


@pytest.mark.parametrize(
    ("text", "kind", "advice"),
    [
        ("server closed the connection unexpectedly", RunError, "run the same command again"),
        ("Lost connection to MySQL server during query", RunError, "run the same command again"),
        ('relation "sales" does not exist', DataError, "compare their columns"),
        ("permission denied for table x", ConfigError, "grant this to the user of the address"),
        ("database is locked", RunError, "another program holds a lock"),
        ("canceling statement due to statement timeout", RunError, "allow more seconds"),
        ('password authentication failed for user "x"', ConfigError, "the password in FORECAST"),
        ("syntax error at or near selekt", DataError, "see that the query is valid"),
    ],
)
def test_a_failure_says_what_to_do(text: str, kind: type[Exception], advice: str) -> None:
    with (
        pytest.raises(kind, match=advice) as failure,
        explained(Database.parse("postgresql://owner@host/db")),
    ):
        raise RuntimeError(text)
    assert str(failure.value).startswith(f"postgresql://host/db: {text}; ")


def test_a_driver_that_repeats_a_password_is_not_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", "geheim-1")
    with (
        pytest.raises(DataError) as failure,
        explained(Database.parse("postgresql://host/db")),
    ):
        raise RuntimeError("cannot use geheim-1 here")
    assert "cannot use *** here" in str(failure.value)
    assert failure.value.__cause__ is None  # nor does --debug show it
    assert failure.value.__suppress_context__


@pytest.mark.servers
def test_the_password_file_of_mariadb_is_read(
    mariadb: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("MYSQL_PWD", PASSWORD_VARIABLE, f"{PASSWORD_VARIABLE}_FILE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigError, match=r"~/\.my\.cnf"), connect(Database.parse(mariadb.url())):
        pass
    (tmp_path / ".my.cnf").write_text(f'[client]\npassword = "{PASSWORD}"\n')
    with connect(Database.parse(mariadb.url())) as connection:
        assert connection.name == "mysql"
    (tmp_path / ".my.cnf").unlink()
    monkeypatch.setenv("MYSQL_PWD", PASSWORD)
    with connect(Database.parse(mariadb.url())) as connection:
        assert connection.name == "mysql"


@pytest.mark.servers
@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
def test_a_wrong_address_says_which_part_of_it_is_wrong(
    kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    server: Server = request.getfixturevalue(kind)
    monkeypatch.setenv(PASSWORD_VARIABLE, PASSWORD)
    for wrong, advice in (
        (server.url().replace("127.0.0.1", "nosuch.invalid"), "check the host"),
        (server.url("nosuch"), "check the name of the database"),
    ):
        with pytest.raises(ConfigError, match=advice), connect(Database.parse(wrong)):
            pass
    closed, advice = Database.parse(server.url(port=1)), "see that the server answers"
    with pytest.raises(RunError, match=advice), connect(closed):
        pass


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_a_wrong_path_says_what_is_wrong_with_it(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{kind}"
    path.write_text("no database" * 99)
    with pytest.raises(DataError, match="give the path of a database of this kind"):
        Query.parse(f"{kind}://{path}", "t").read()
    for missing in (tmp_path, tmp_path / "none" / "b"):
        database, advice = Database.parse(f"{kind}://{missing}"), "no such folder; give the path"
        with pytest.raises(DataError, match=advice), connect(database, writing=True):
            pass


def test_a_missing_backend_or_driver_is_named_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(ConfigError) as refusal, connect(Database.parse("trino://u@h/d")):
        pass
    assert str(refusal.value).endswith("not installed: pip install 'ibis-framework[trino]'")
    for scheme, module, extra in (
        ("postgresql", "psycopg", "databases"),
        ("mariadb", "MySQLdb", "mysql"),
    ):
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(ConfigError) as refusal, connect(Database.parse(f"{scheme}://h/d")):
            pass
        needed = f"this needs {module}, which is not installed"
        assert str(refusal.value) == f"{needed}: pip install 'forecaster[{extra}]'"
