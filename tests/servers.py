"""Database servers of the tests, started once on free ports, and a proxy in front of them."""

import importlib
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

PASSWORD = "geheim-7391-nirgends"  # noqa: S105 (of servers that live as long as the tests)
USER = "owner"


@dataclass
class Server:
    """A database server on this machine."""

    scheme: str
    port: int
    pid: int

    def url(self, rest: str = "test", port: int | None = None) -> str:
        return f"{self.scheme}://{USER}@127.0.0.1:{port or self.port}/{rest}"

    def connect(self) -> Any:
        """Open a connection of the driver, for what the tests do themselves."""
        address: dict[str, Any] = {"host": "127.0.0.1", "port": self.port, "user": USER}
        if self.scheme == "postgresql":
            psycopg = importlib.import_module("psycopg")

            return psycopg.connect(**address, password=PASSWORD, dbname="test", autocommit=True)
        return importlib.import_module("MySQLdb").connect(
            **address, password=PASSWORD, database="test", autocommit=True
        )

    def execute(self, *statements: str) -> list[tuple[Any, ...]]:
        """Run statements, and return the rows of the last one."""
        with closing(self.connect()) as connection, closing(connection.cursor()) as cursor:
            for statement in statements:
                cursor.execute(statement)
            return list(cursor.fetchall()) if cursor.description else []


@dataclass
class Proxy:
    """Passes bytes on to a server, counts them, and can cut the line."""

    target: int
    limit: int | None = None  # of the bytes of the server before the line is cut
    received: int = 0
    port: int = 0
    sockets: list[socket.socket] = field(default_factory=list)

    def __enter__(self) -> "Proxy":
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for one in (self.listener, *self.sockets):
            one.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.target))
            self.sockets += [client, server]
            for pair in ((client, server), (server, client)):
                threading.Thread(target=self._pass_on, args=pair, daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while block := source.recv(65536):
                if source.getpeername()[1] == self.target:
                    self.received += len(block)
                    if self.limit is not None and self.received > self.limit:
                        break
                sink.sendall(block)
        except OSError:
            pass
        for one in (source, sink):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A PostgreSQL server with an empty database."""
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    if not postgres_programs():
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    with serve_postgres() as server:
        yield server


def postgres_programs() -> list[Path]:
    """Return the folders of programs of Debian's packages, the newest first."""
    return sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)


@contextmanager
def serve_postgres() -> Iterator[Server]:
    """Run a PostgreSQL server with an empty database."""
    psycopg, programs = importlib.import_module("psycopg"), postgres_programs()[0]
    with _folder("postgres") as folder:
        (folder / "password").write_text(PASSWORD)
        data, port = folder / "data", _free_port()
        words = ["-D", data, "-U", USER, "-A", "scram-sha-256", "--no-sync", "--no-locale"]
        words += ["-E", "UTF8", f"--pwfile={folder / 'password'}"]
        _run_as("postgres", [programs / "initdb", *words])
        options = ["-D", data, "-p", str(port), "-c", "listen_addresses=127.0.0.1"]
        options += ["-c", "unix_socket_directories=", "-c", "fsync=off"]
        with _serving("postgres", [programs / "postgres", *options]) as pid:
            login = f"host=127.0.0.1 port={port} user={USER} password={PASSWORD} dbname=postgres"
            _until(lambda: psycopg.connect(login).close(), psycopg.OperationalError)
            with psycopg.connect(login, autocommit=True) as connection:
                connection.execute("CREATE DATABASE test")
            yield Server("postgresql", port, pid)


@pytest.fixture(scope="session")
def mariadb() -> Iterator[Server]:
    """A MariaDB server with an empty database."""
    mysql = pytest.importorskip("MySQLdb", reason="mysqlclient is not installed")
    if not shutil.which("mariadb-install-db"):
        pytest.skip("MariaDB is not installed: apt-get install mariadb-server")
    with _folder("mysql") as folder:
        data, port = folder / "data", _free_port()
        words = ["--no-defaults", f"--datadir={data}", "--skip-test-db", "--force"]
        words += ["--auth-root-authentication-method=normal"]
        _run_as("mysql", ["mariadb-install-db", *words])
        options = ["--no-defaults", f"--datadir={data}", f"--port={port}"]
        options += [f"--socket={folder / 'socket'}", "--bind-address=127.0.0.1"]
        options += ["--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=64M"]
        daemon = shutil.which("mariadbd") or "/usr/sbin/mariadbd"
        with _serving("mysql", [daemon, *options]) as pid:
            login = {"user": "root", "unix_socket": str(folder / "socket")}
            _until(lambda: mysql.connect(**login).close(), mysql.OperationalError)
            with closing(mysql.connect(**login)) as connection, closing(connection.cursor()) as c:
                c.execute("CREATE DATABASE test CHARACTER SET utf8mb4")
                c.execute(f"CREATE USER {USER}@'%' IDENTIFIED BY '{PASSWORD}'")
                c.execute(f"GRANT ALL ON test.* TO {USER}@'%'")
            yield Server("mariadb", port, pid)


@contextmanager
def _folder(user: str) -> Iterator[Path]:
    """A folder that the server's user owns; servers refuse to run as root."""
    with tempfile.TemporaryDirectory(prefix="forecaster-server-") as name:
        if os.getuid() == 0:
            shutil.chown(name, user)
        yield Path(name)


def _run_as(user: str, words: list[Any]) -> None:
    done = subprocess.run(
        list(map(str, words)), capture_output=True, text=True, check=False, **_as(user)
    )
    assert done.returncode == 0, done.stderr + done.stdout


def _as(user: str) -> dict[str, Any]:
    if os.getuid() != 0:
        return {}
    entry = pwd.getpwnam(user)
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": [], "cwd": "/"}


@contextmanager
def _serving(user: str, words: list[Any]) -> Iterator[int]:
    server = subprocess.Popen(
        list(map(str, words)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **_as(user)
    )
    try:
        yield server.pid
    finally:
        server.terminate()
        try:
            server.wait(20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _until(attempt: Any, failure: type[Exception]) -> None:
    """Try until the server answers."""
    for _ in range(300):
        try:
            attempt()
        except failure:
            time.sleep(0.1)
        else:
            return
    attempt()


def _free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as one:
        return int(one.getsockname()[1])
