"""A local S3 server of others, a web server, and the bytes that they send."""

import importlib
import os
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

SECRET = "geheim-5128-nirgends"  # noqa: S105 (of a server that lives as long as the tests)


@dataclass
class Bucket:
    """A bucket on this machine, and what was read of it."""

    port: int
    reads: list[tuple[str, int]] = field(default_factory=list)  # paths and bytes of answers
    failures: int = 0  # answers that fail from now on

    def put(self, folder: Path, name: str) -> str:
        """Upload a file, or all files below a folder; return the address."""
        pa_fs = importlib.import_module("pyarrow.fs")
        system, _ = pa_fs.FileSystem.from_uri("s3://bucket")
        files = [folder] if folder.is_file() else [p for p in folder.rglob("*") if p.is_file()]
        for path in files:
            inside = "" if path == folder else f"/{path.relative_to(folder)}"
            with system.open_output_stream(f"bucket/{name}{inside}".replace("//", "/")) as sink:
                sink.write(path.read_bytes())
        self.reads.clear()
        return f"s3://bucket/{name}"

    @property
    def received(self) -> int:
        return sum(size for _, size in self.reads)

    def names(self) -> set[str]:
        """Return the names of the files that were read."""
        return {path.rpartition("/")[2] for path, size in self.reads if size}


@pytest.fixture(scope="session")
def s3_server() -> Iterator[Bucket]:
    """An S3 server with an empty bucket."""
    server_module = pytest.importorskip("moto.server", reason="moto is not installed")
    wsgi = importlib.import_module("werkzeug.serving")
    app = server_module.DomainDispatcherApplication(server_module.create_backend_app)
    bucket = Bucket(0)

    def counted(environ: Any, start: Any) -> Any:
        if environ["REQUEST_METHOD"] == "GET" and bucket.failures:
            bucket.failures -= 1
            start("503 Slow Down", [("Content-Length", "0")])
            return []
        answer = b"".join(app(environ, start))
        if environ["REQUEST_METHOD"] == "GET":
            bucket.reads.append((environ["PATH_INFO"], len(answer)))
        return [answer]

    server = wsgi.make_server("127.0.0.1", 0, counted, threaded=True)
    bucket.port = server.server_port
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)
        patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{bucket.port}")
        patch.setenv("AWS_ACCESS_KEY_ID", "reader")
        patch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        pa_fs = importlib.import_module("pyarrow.fs")
        options = {"scheme": "http", "access_key": "reader", "secret_key": SECRET}
        options |= {"endpoint_override": f"127.0.0.1:{bucket.port}", "region": "us-east-1"}
        pa_fs.S3FileSystem(**options, allow_bucket_creation=True).create_dir("bucket")
        yield bucket
    server.shutdown()


@pytest.fixture
def bucket(s3_server: Bucket, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Bucket:
    """That bucket, of which this process has read nothing yet."""
    folder = tmp_path / "of-this-process"
    folder.mkdir()
    monkeypatch.setattr("forecaster.remote._folder", lambda: folder)
    monkeypatch.setattr("forecaster.remote.PAUSES", (0.0, 0.0, 0.0))
    s3_server.reads.clear()
    return s3_server


@dataclass
class Web:
    """A web server with the files of a folder."""

    folder: Path
    port: int
    authority: Path | None = None  # certificate of the one that signed its own

    @property
    def url(self) -> str:
        return f"{'https' if self.authority else 'http'}://127.0.0.1:{self.port}"


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def web(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    """A web server, which knows no parts of files."""
    with _serving(tmp_path, monkeypatch) as (folder, server):
        yield Web(folder, server.server_port)


@pytest.fixture
def secure_web(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    """A web server of https, whose certificate an authority of this test has signed."""
    pytest.importorskip("cryptography", reason="cryptography is not installed")
    authority = _sign(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem")
    with _serving(tmp_path, monkeypatch, context) as (folder, server):
        yield Web(folder, server.server_port, authority)


@contextmanager
def _serving(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, context: ssl.SSLContext | None = None
) -> Iterator[tuple[Path, ThreadingHTTPServer]]:
    pytest.importorskip("aiohttp", reason="aiohttp is not installed")
    folder, here = tmp_path / "web", tmp_path / "from-web"
    folder.mkdir()
    here.mkdir()
    monkeypatch.setattr("forecaster.remote._folder", lambda: here)
    monkeypatch.setattr("forecaster.remote.PAUSES", (0.0, 0.0, 0.0))
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    server.handle_error = lambda *_: None  # type: ignore[method-assign]  # of clients that leave
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield folder, server
    server.shutdown()
    server.server_close()


def _sign(folder: Path) -> Path:
    """Write a server's key and certificate, and return the certificate of its authority."""
    x509 = importlib.import_module("cryptography.x509")
    primitives = "cryptography.hazmat.primitives"
    ec = importlib.import_module(f"{primitives}.asymmetric.ec")
    hashes = importlib.import_module(f"{primitives}.hashes")
    forms = importlib.import_module(f"{primitives}.serialization")
    now, address = datetime.now(UTC), ip_address("127.0.0.1")
    keys = {name: ec.generate_private_key(ec.SECP256R1()) for name in ("authority", "server")}
    for name, key in keys.items():
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        issuer = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "authority")])
        builder = (
            x509.CertificateBuilder(issuer, subject, key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(name == "authority", None), critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.IPAddress(address)]), critical=False)
        )
        signed = builder.sign(keys["authority"], hashes.SHA256()).public_bytes(forms.Encoding.PEM)
        form = (forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.NoEncryption())
        private = key.private_bytes(*form) if name == "server" else b""
        (folder / f"{name}.pem").write_bytes(private + signed)
    return folder / "authority.pem"
