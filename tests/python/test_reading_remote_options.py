"""What is said of files far away when they are opened: headers, keys, options that nobody knows."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import pickle
import re
import shutil
import socket
import socketserver
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, ClassVar

import awkward as ak
import far_events
import numpy as np
import pytest
from far_events import ENTRIES
from servers import Server, serving

import sapwood
from sapwood.cli import main, storage
from sapwood.errors import without_secrets
from sapwood.storage import web
from sapwood.storage.sources import options_of
from sapwood.train import Dataset
from sapwood.writing import output

path, local, server = far_events.path, far_events.local, far_events.server


def test_secrets_are_for_the_server_that_was_named(server: Server, path: Path, local: Any) -> None:
    with serving({"events.root": path.read_bytes()}) as other:
        # Another name, so another host.
        target = other.url("events.root").replace("127.0.0.1", "localhost")
        server.fault = lambda _n: f"redirect {target}"
        secrets = {"Authorization": "Bearer x", "cookie": "a=b", "Proxy-Authorization": "x", "X-Api-Key": "x"}
        headers = {**secrets, "X-Custom": "Bearer x", "X-Test": "yes"}
        with sapwood.open(server.url("events.root"), headers=headers, prior=None) as file:
            assert ak.array_equal(file["t"].arrays(["x1"]), local[["x1"]])
            assert ak.array_equal(file["t"].arrays(["x2"]), local[["x2"]])
        assert {heard["authorization"] for heard in server.heard} == {"Bearer x"}
        assert len(other.heard) > 3
        assert all(heard["x-test"] == "yes" for heard in other.heard)
        hidden = {"authorization", "cookie", "proxy-authorization", "x-api-key", "x-custom"}
        assert all(hidden <= set(heard) for heard in server.heard)
        assert not any(hidden & set(heard) for heard in other.heard)


def test_secrets_of_updates_and_folders_are_for_the_server_that_was_named(server: Server, path: Path) -> None:
    pytest.importorskip("aiohttp", reason="needs aiohttp (pip install sapwood[remote])")
    headers = {"Authorization": "Bearer x", "X-Api-Key": "x", "X-Amz-Security-Token": "x"}
    page = b'<a href="events.root">events</a>'
    with serving({"events.root": path.read_bytes(), "d/events.root": path.read_bytes(), "d/": page}) as other:
        server.fault = lambda _n: f"redirect http://localhost:{other.server_address[1]}{server.asked}"
        updated = sapwood.update(server.url("events.root"), headers=headers)
        updated["more"] = "text"
        with pytest.raises(sapwood.StorageError, match=r"501.*kept as") as error:  # it takes no files
            updated.close()
        Path(str(error.value).rpartition(" ")[2]).unlink()
        assert [asked for asked, *_ in other.log] == ["/events.root"]
        list(sapwood.iterate(server.url("d/*.root:t"), ["x1"], headers=headers))
        assert "/d/" in [asked for asked, *_ in other.log]
        hidden = {name.lower() for name in headers}
        assert all(hidden <= set(heard) for heard in server.heard)
        assert not any(hidden & set(heard) for heard in other.heard)


def test_folders_and_files_without_end_are_not_fetched(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("aiohttp", reason="needs aiohttp (pip install sapwood[remote])")
    server.files["d/"] = b"<a href='x.root'>" * 1000
    with pytest.raises(sapwood.MissingFileError):
        list(sapwood.iterate(server.url("d/*.txt:t")))
    monkeypatch.setattr(web, "_LARGEST_PAGE", 10_000)
    with pytest.raises(sapwood.StorageError, match="the page that lists the folder has more than 10000 bytes"):
        list(sapwood.iterate(server.url("d/*.root:t")))
    monkeypatch.setattr(output, "_WITHOUT_SIZE", 1000)
    server.chunked = True
    with pytest.raises(sapwood.StorageError, match="more than 1000 bytes arrive, and the server states no size"):
        sapwood.update(server.url("events.root"))


class Proxy(socketserver.ThreadingTCPServer):
    """Opens tunnels to servers, or refuses them; `asked` has the first line of each request."""

    daemon_threads = True

    def __init__(self, refuses: bool) -> None:
        self.asked: list[str] = []
        self.refuses = refuses
        super().__init__(("127.0.0.1", 0), Tunnel)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Tunnel(socketserver.StreamRequestHandler):
    """Handles one request to a proxy."""

    server: Proxy

    def handle(self) -> None:
        line = self.rfile.readline().decode().strip()
        while self.rfile.readline().strip():
            pass
        self.server.asked.append(line)
        method, place, _ = line.split()
        if self.server.refuses or method != "CONNECT":
            self.wfile.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
            return
        host, port = place.rsplit(":", 1)
        with socket.create_connection((host, int(port)), timeout=20) as other:
            self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
            back = threading.Thread(target=self.copy, args=(other, self.connection), daemon=True)
            back.start()
            self.copy(self.connection, other)
            back.join()

    @staticmethod
    def copy(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)


@pytest.mark.parametrize("name", ["http_proxy", "HTTPS_PROXY", "all_proxy"])
def test_proxies_of_the_environment_open_tunnels(
    name: str, server: Server, local: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for one in [*os.environ]:
        if one.lower().endswith("_proxy"):
            monkeypatch.delenv(one)
    with Proxy(refuses=False) as proxy, Proxy(refuses=True) as closed:
        monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.server_address[1]}")
        with sapwood.open(server.url("events.root")) as file:
            assert ak.array_equal(file["t"].arrays(["x1"]), local[["x1"]])
        assert set(proxy.asked) == {f"CONNECT {server.place} HTTP/1.1"}
        monkeypatch.setenv(name, f"http://127.0.0.1:{closed.server_address[1]}")
        with pytest.raises(sapwood.StorageError, match="CONNECT proxy failed"):
            sapwood.open(server.url("events.root"), retries=0)
        count = len(closed.asked)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        with sapwood.open(server.url("events.root")) as file:
            assert file["t"].num_entries == ENTRIES
        assert len(closed.asked) == count > 0
        proxy.shutdown()
        closed.shutdown()


def test_signatures_are_for_the_server_that_was_named(server: Server, path: Path) -> None:
    with serving({"events.root": path.read_bytes()}) as other:
        target = other.url("events.root").replace("127.0.0.1", "localhost")
        server.fault = lambda _n: f"redirect {target}"
        options = {"key": "AK", "secret": "SK", "token": "session", "endpoint_url": f"http://{server.place}"}
        with sapwood.open("s3://bucket/events.root", prior=None, **options) as file:
            assert file["t"].num_entries > 0
        assert all(heard["x-amz-security-token"] == "session" for heard in server.heard)
        assert other.heard
        assert not any(name == "authorization" or "amz" in name for heard in other.heard for name in heard)


def test_headers_are_sent_and_handles_pickle(server: Server, local: Any) -> None:
    with sapwood.open(server.url("events.root"), headers={"X-Test": "yes"}) as file:
        again = pickle.loads(pickle.dumps(file["t"]))
        assert all(heard["x-test"] == "yes" for heard in server.heard)
        assert again.file.options == {"headers": {"X-Test": "yes"}}
        assert ak.array_equal(again.arrays(["jet"]), local[["jet"]])


def test_options_that_nobody_knows(server: Server, local: Any) -> None:
    """They are named, whether fsspec would take anything or not; what it does take is passed on, with the headers."""
    url = server.url("events.root")
    for options, hint in (({"tiemout": 5}, "did you mean 'timeout'"), ({"nonsense": 1}, "'nonsense'")):
        with pytest.raises(sapwood.ArgumentError, match=hint):
            sapwood.open(url, **options)
    with pytest.raises(sapwood.ArgumentError, match=r"'num_worker'.*did you mean 'num_workers'"):
        sapwood.open("root://localhost:9//f.root", num_worker=3)
    for name, value in (("handler", "fspec"), ("http_handler", 3)):
        with pytest.raises(sapwood.ArgumentError, match=f"^{name} is .* not {value!r}"):
            sapwood.open(url, **{name: value})
    handlers = [f"{kind}handler" for kind in ("", "file_", "http_", "object_", "s3_", "xrootd_")]
    with sapwood.open(url, **dict.fromkeys(handlers, type(server))) as file:
        assert ak.array_equal(file["t"].arrays(["id"]), local[["id"]])
    pytest.importorskip("aiohttp", reason="needs aiohttp, which gets the options (pip install aiohttp)")
    listings: dict[str, Any] = {"use_listings_cache": False, "listings_expiry_time": 3, "max_paths": 5}
    theirs: list[dict[str, Any]] = [listings, {"skip_instance_cache": True}, {"asynchronous": False, "loop": None}]
    for options in theirs:
        with sapwood.open(url, **options) as file:
            assert ak.array_equal(file["t"].arrays(["id"]), local[["id"]])
    server.heard.clear()
    with sapwood.open(url, headers={"X-Test": "yes"}, ssl=False, timeout=20) as file:
        assert ak.array_equal(file["t"].arrays(["id"]), local[["id"]])
    assert all(heard.get("x-test") == "yes" for heard in server.heard)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"retries": 1 << 40}, "retries must be a number"),
        ({"timeout": "soon"}, "timeout is a number of seconds"),
        ({"deadline": []}, "deadline is a number of seconds"),
        ({"headers": ["a"]}, "headers are a dict"),
        ({"prior": True}, "prior must be"),
        ({"prefetch_size": "much"}, "prefetch_size: a memory size"),
        ({"block_cache": "x", "block_cache_size": -1}, "block_cache_size: -1 is not a memory size"),
        ({"block_cache": True}, "block_cache is the path"),
        ({"replicas": 5}, "same protocol, unlike 5"),
        ({"replicas": ["http://other/f.root", "root://other//f.root"]}, "same protocol, unlike 'root://"),
        ({"replicas": "/data/f.root"}, "same protocol, unlike '/data"),
        ({"storage_options": {}}, "no such option: 'storage_options'"),
        ({"handler": "fsspec", "nonsense": 3}, "no such option: 'nonsense'"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], said: str) -> None:
    """They are named before anybody is asked."""
    with pytest.raises(sapwood.ArgumentError, match=said):
        sapwood.open("http://127.0.0.1:9/f.root", **options)


def test_options_that_fsspec_drops(server: Server, path: Path) -> None:
    """What would be dropped is refused: replicas always, and of a file system with one request at a time more."""
    fsspec = pytest.importorskip("fsspec", reason="needs fsspec (pip install sapwood[remote])")
    pytest.importorskip("aiohttp", reason="needs aiohttp (pip install --group test)")
    memory = fsspec.filesystem("memory")
    memory.pipe("/dropped.root", path.read_bytes())
    url = server.url("events.root")
    one_by_one: dict[str, Any] = {"deadline": 3, "prefetch_size": "1 MB", "retries": 0, "timeout": 3, "num_workers": 2}
    always: dict[str, Any] = {"replicas": [url], "block_cache": "x", "block_cache_size": "1 MB"}
    always |= {"http_max_ranges": 3, "http_max_header_bytes": 3000}
    for name, value in (one_by_one | always).items():
        with pytest.raises(sapwood.ArgumentError, match=f"{name} has no effect"):
            sapwood.open("memory://dropped.root", **{name: value})
    for name, value in always.items():
        with pytest.raises(sapwood.ArgumentError, match=f"{name} has no effect"):
            sapwood.open(url, handler="fsspec", **{name: value})
    for options in (one_by_one, dict.fromkeys(always)):
        with sapwood.open(url, handler="fsspec", **options) as file:
            assert file["t"].num_entries == ENTRIES
    with sapwood.open("memory://dropped.root", **dict.fromkeys(one_by_one | always)) as file:
        assert file["t"].num_entries == ENTRIES


def test_options_that_a_file_system_has_too(path: Path) -> None:
    """It gets them: what one with one request at a time takes by the same name does not do nothing."""
    fsspec = pytest.importorskip("fsspec", reason="needs fsspec (pip install sapwood[remote])")
    from fsspec.implementations.memory import MemoryFileSystem

    class Patient(MemoryFileSystem):
        protocol = "patient"
        taken: ClassVar[list[float]] = []

        def __init__(self, timeout: float = 60, **options: Any) -> None:
            super().__init__(**options)
            self.taken.append(timeout)

        @classmethod
        def _strip_protocol(cls, path: str) -> str:
            return super()._strip_protocol(path.replace("patient://", "memory://"))

    fsspec.register_implementation("patient", Patient, clobber=True)
    fsspec.filesystem("memory").pipe("/patient.root", path.read_bytes())
    with sapwood.open("patient://patient.root", timeout=3) as file:
        assert file["t"].num_entries == ENTRIES
    assert Patient.taken == [3]
    with pytest.raises(sapwood.ArgumentError, match="retries has no effect"):
        sapwood.open("patient://patient.root", retries=3)


@pytest.mark.parametrize("options", [{"timeout": 1, "retries": 0}, {"deadline": 1.5}])
def test_a_file_system_that_hangs(path: Path, options: dict[str, Any]) -> None:
    """Its requests have the time that others have, and nobody waits for them beyond the deadline."""
    fsspec = pytest.importorskip("fsspec", reason="needs fsspec (pip install sapwood[remote])")
    from fsspec.asyn import AsyncFileSystem

    data = path.read_bytes()
    hangs = threading.Event()

    class Hanging(AsyncFileSystem):
        protocol = "hanging"

        async def _info(self, path: str, **_: object) -> dict[str, Any]:
            return {"name": path, "size": len(data), "type": "file"}

        async def _cat_file(self, path: str, start: int = 0, end: int = len(data), **_: object) -> bytes:
            del path
            await asyncio.sleep(15 if hangs.is_set() else 0)
            return data[start:end]

    fsspec.register_implementation("hanging", Hanging, clobber=True)
    with sapwood.open("hanging://f.root", prior=None, **options) as file:
        tree = file["t"]
        hangs.set()
        start = time.monotonic()
        with pytest.raises(sapwood.StorageError, match=r"timeout: no data arrived|deadline"):
            tree["x2"].array(entry_stop=10)
        assert time.monotonic() - start < 10
        hangs.clear()
        assert len(tree["x2"].array()) == ENTRIES


def test_s3(server: Server, path: Path, local: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The way to a bucket, and who asks; that the signature is right is seen to where it is made."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    server.files = {"bucket/a%20b/events.root": path.read_bytes()}
    url = "s3://bucket/a b/events.root"
    endpoint = server.url("")
    with sapwood.open(url, key="me", secret="x", client_kwargs={"endpoint_url": endpoint}) as file:
        assert ak.array_equal(file["t"].arrays(["id"]), local[["id"]])
        assert pickle.loads(pickle.dumps(file.file)).size == file.file.size
    assert all("Credential=me/" in heard.get("authorization", "") for heard in server.heard)
    server.heard.clear()
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    with sapwood.open(f"{url}:t", anon=True) as tree:
        assert tree.num_entries == ENTRIES
    assert server.heard
    assert not any("authorization" in heard for heard in server.heard)
    assert sapwood.open(Path("s3://bucket/a b/events.root"))["t"].num_entries == ENTRIES
    with pytest.raises(sapwood.ArgumentError, match="s3://bucket/key"):
        sapwood.open("s3://bucket", anon=True)
    with pytest.raises(sapwood.ArgumentError, match="must be given together"):
        sapwood.open(url, key="me")
    server.fault = lambda _number: "403"
    with pytest.raises(sapwood.StorageError, match="403 Forbidden: no keys were sent"):
        sapwood.open(url)
    with pytest.raises(sapwood.StorageError, match=r"403 Forbidden$"):
        sapwood.open(url, key="me", secret="x")


S3_REFUSALS = [
    (404, "NoSuchKey", "", "404 Not Found: NoSuchKey (No <such> key.)"),
    (404, "NoSuchBucket", "", "404 Not Found: NoSuchBucket"),
    (403, "AccessDenied", "", "403 Forbidden: AccessDenied"),
    (403, "InvalidAccessKeyId", "", "403 Forbidden: InvalidAccessKeyId"),
    (403, "SignatureDoesNotMatch", "", "403 Forbidden: SignatureDoesNotMatch"),
    (403, "RequestTimeTooSkewed", "", "403 Forbidden: RequestTimeTooSkewed"),
    (400, "ExpiredToken", "", "400 Bad Request: ExpiredToken"),
    (400, "InvalidToken", "", "400 Bad Request: InvalidToken"),
    (400, "AuthorizationHeaderMalformed", "<Region>eu-west-1</Region>", "the bucket is in eu-west-1 (AWS_REGION)"),
    (
        301,
        "PermanentRedirect",
        "<Region>eu-west-1</Region>",
        "redirects without a target (set AWS_REGION",
    ),
    (503, "SlowDown", "", "503 Service Unavailable: SlowDown"),
    (400, "RequestTimeout", "", "400 Bad Request: RequestTimeout"),
]


@pytest.mark.parametrize(("status", "code", "more", "said"), S3_REFUSALS)
def test_what_s3_says(server: Server, path: Path, local: Any, status: int, code: str, more: str, said: str) -> None:
    """Its own words are in errors and ledgers, and tell what may pass."""
    server.files = {"bucket/f.root": path.read_bytes()}
    words = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>No &lt;such&gt; key.</Message>{more}</Error>"
    options = {"key": "me", "secret": "x", "endpoint_url": server.url(""), "retries": 1, "prior": None}
    passes = code in ("SlowDown", "RequestTimeout")
    file = sapwood.open("s3://bucket/f.root", **options)
    tree = file["t"]
    server.fault = lambda _number: f"{status} says {words}"
    with pytest.raises(sapwood.StorageError, match=re.escape(said)) as failed:
        sapwood.open("s3://bucket/f.root", **options)
    assert isinstance(failed.value, FileNotFoundError) == (status == 404)
    assert any(entry.again for entry in failed.value.ledger) == passes
    assert not failed.value.ledger[-1].again
    with pytest.raises(sapwood.StorageError, match=re.escape(said)):
        tree["x1"].array()
    assert file.file.ledger()[-1].reason.startswith(f"{server.place}: ")
    assert said in file.file.ledger()[-1].reason
    server.fault = lambda _number: None
    assert ak.array_equal(tree["x1"].array(), local["x1"])
    file.close()


SECRETS = [
    "authz=Bearer%20",
    "access_token=",
    "id_token=",
    "X-Amz-Security-Token=",
    "password=",
    "cap.sym=",
    "api_key=",
]


@pytest.mark.parametrize("name", SECRETS)
def test_secrets_in_urls_are_hidden(server: Server, name: str) -> None:
    with pytest.raises(sapwood.MissingFileError) as failed:
        sapwood.open(server.url(f"nothing.root?a=b&{name}hunter2&c=d"))
    assert "hunter2" not in f"{failed.value} {failed.value.ledger} {failed.value.__cause__}"
    assert "a=b" in str(failed.value)
    assert "c=d" in str(failed.value)


def test_secrets_in_headers_are_not_told() -> None:
    with pytest.raises(sapwood.ArgumentError, match="headers are a dict") as failed:
        sapwood.open("http://127.0.0.1:9/f.root", headers="Authorization: Bearer hunter2")
    assert "hunter2" not in str(failed.value)


def test_on_the_command_line(server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The commands that read files take the same options, by the same names."""
    task = tmp_path / "count.py"
    task.write_text(
        "class Count:\n    branches = ['id']\n    def process(self, events):\n        return {'n': len(events)}\n"
    )
    url = server.url("events.root")
    server.fault = lambda _number: None if server.token == "yes" else "401"
    words = ["--storage", 'headers={"X-Token": "yes"}', "--storage", "timeout=20"]
    run = ["run", str(task), "-i", f"{url}:t", "-q", "-o", str(tmp_path / "out")]
    for command in (["ls", url], ["show", f"{url}:t", "-n", "1"], run):
        assert main(command) == 1
        assert "401 Unauthorized" in capsys.readouterr().err
        assert main([*command, *words]) == 0, capsys.readouterr().err
        assert main([*command, "--storage", "timeout"]) == 2
        assert "not of the form name=value" in capsys.readouterr().err
        assert main([*command, "--storage", "tiemout=5"]) != 0
        assert "did you mean 'timeout'" in capsys.readouterr().err
    # It goes before what a description says.
    described = {"files": [url], "tree": "t", "options": {"headers": {"X-Token": "no"}, "timeout": 9}}
    (source,) = Dataset.of(described, options=options_of(words[1::2])).sources
    assert source.options == {"headers": {"X-Token": "yes"}, "timeout": 20}
    near = tmp_path / "near.root"
    near.write_bytes(server.files["events.root"])
    assert main(["ls", str(near), *words]) == 0


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_files_inside_archives(path: Path, local: Any, tmp_path: Path, kind: str) -> None:
    pytest.importorskip("fsspec", reason="needs fsspec (pip install sapwood[remote])")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "e.root").write_bytes(path.read_bytes())
    held = shutil.make_archive(str(tmp_path / "held"), kind, tmp_path / "in")
    name = "e.root" if kind == "zip" else "./e.root"
    with sapwood.open(f"{kind}://{name}::file://{held}") as file:
        # The file system of an archive closes the archive when it is forgotten.
        gc.collect()
        assert ak.array_equal(file["t"].arrays(["x1"]), local[["x1"]])


class Carrying:
    """A path with options of its file system, as `universal_pathlib` has them."""

    def __init__(self, url: str, **storage_options: object) -> None:
        self.url, self.storage_options = url, storage_options

    def __str__(self) -> str:
        return self.url


def test_paths_that_carry_options(server: Server, path: Path, local: Any) -> None:
    for given in (Carrying(str(path), headers={"X-Test": "1"}), Carrying(f"file://{path}")):
        assert ak.array_equal(sapwood.open(given)["t"].arrays(["x1"]), local[["x1"]])
    carrying = Carrying(server.url("events.root"), headers={"X-Test": "carried"})
    for options, sent in (({}, "carried"), ({"headers": {"X-Test": "given"}}, "given")):
        server.heard.clear()
        with sapwood.open(carrying, prior=None, **options) as file:
            assert file["t"].num_entries == len(local)
        assert {heard["x-test"] for heard in server.heard} == {sent}
    assert next(iter(sapwood.num_entries({carrying: "t"})))[2] == len(local)


_SLOW = """
import asyncio, os, sys, threading
import fsspec, sapwood
from fsspec.asyn import AsyncFileSystem

class Slow(AsyncFileSystem):
    protocol = "slow"
    pause, reads = 0.0, threading.Event()
    async def _info(self, path, **options):
        return {"name": path, "size": os.path.getsize(path), "type": "file"}
    async def _cat_file(self, path, start=0, end=None, **options):
        if self.pause:
            self.reads.set()
        await asyncio.sleep(self.pause)
        with open(path, "rb") as file:
            file.seek(start)
            return file.read(end - start)
    @classmethod
    def _strip_protocol(cls, path):
        return path.removeprefix("slow://")

fsspec.register_implementation("slow", Slow)
tree = sapwood.open(f"slow://{sys.argv[1]}:Events")
Slow.pause = 0.5
threading.Thread(target=tree.arrays, daemon=True).start()
assert Slow.reads.wait(20)
"""


def test_a_program_ends_while_a_thread_reads_through_fsspec(tmp_path: Path) -> None:
    with sapwood.recreate(tmp_path / "f.root", compression=None) as file:
        file["Events"] = {"x": np.arange(200_000.0)}
    ended = subprocess.run(
        [sys.executable, "-c", _SLOW, str(tmp_path / "f.root")], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")


def test_secrets_in_options_are_not_printed(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--storage", "secret=hunter2"], ["--storage=headers={'X': 'hunter2'}"]):
        assert main(["advise", "none.root", *words]) != 0
        assert "hunter" not in capsys.readouterr().err


def test_secrets_of_the_command_line_are_known_in_all_forms_in_which_they_may_be_repeated() -> None:
    words = [
        "ls", "http://user:hunter1%2Fhunter@h/f.root?a=1&authz=Bearer%20hunter2%2Bhunter", "dav://hunter3hunter@h/f.root",
        "--storage", "password=hunter4hunter", '--storage=headers={"X-Id": "hunter5hunter", "n": ["hunter6hunter"]}',
        "--storage", "sas_token=hunter7hunter", "--storage", "timeout=60",
    ]  # fmt: skip
    hidden = storage.instead_of_secrets(words)
    text = (
        " ".join(words)
        + " hunter1/hunter hunter2+hunter hunter3hunter {'X-Id': 'hunter5hunter'} hunter6hunter hunter7hunter"
    )
    for secret, shown in hidden.items():
        text = text.replace(secret, shown)
    assert "hunter" not in text and "user:***@h/f.root?a=1&authz=" in text and "timeout=60" in text


@pytest.mark.parametrize(
    "words",
    [["ls", "--json"], ["show"], ["show", "--json"], ["advise"], ["merge", "-n", "--json", "o.root"]],
)
def test_secrets_of_the_command_line_are_not_printed(
    server: Server, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    url = server.url(next(iter(server.files))).replace("http://", "http://user:hunter2hunter@") + "?sig=hunter3"
    before = sys.stdout
    assert main([words[0], *words[1:], url]) == 0 and sys.stdout is before
    printed = "".join(capsys.readouterr())
    assert "hunter" not in printed and "user:***@" in printed and "sig=***" in printed


def test_secrets_of_lists_of_files_are_not_printed(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are not on the command line, which would hide them in all that is printed."""
    url = server.url(next(iter(server.files))).replace("http://", "http://user:hunter2hunter@")
    (tmp_path / "files.txt").write_text(url)
    for words in (["advise"], ["advise", "--json"], ["ls"], ["ls", "--json"], ["check"]):
        main([*words, str(tmp_path / "files.txt")])
        printed = "".join(capsys.readouterr())
        assert "hunter" not in printed and ("user:***@" in printed or words in (["ls"], ["check"]))


@pytest.mark.parametrize(
    ("words", "code"),
    [(["mkdir", "URL:a"], 2), (["rootmkdir", "URL:a"], 2), (["lab", "event", "-o", "URL"], 2),
     (["lab", "monitor", "--file", "URL", "-o", "m.json", "m.csv", "m.html", "--", "true"], 0)],
)  # fmt: skip
def test_urls_are_no_local_folders_and_have_no_secrets_in_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], code: int
) -> None:
    monkeypatch.chdir(tmp_path)
    url = "http://user:hunter2hunter@127.0.0.1:1/f.root"
    assert main([word.replace("URL", url) for word in words]) == code
    assert "hunter" not in "".join(capsys.readouterr())
    for path in tmp_path.rglob("*"):
        assert "hunter" not in path.name and not path.is_dir()
        assert b"hunter" not in path.read_bytes()


def test_secrets_behind_a_hash_are_not_in_traces(server: Server, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow (pip install sapwood[frames])")
    url = f"{server.url(next(iter(server.files)))}#token=hunter2hunter"
    assert main(["trace", "-o", str(tmp_path / "t.parquet"), "ls", url]) == 0
    rows = str(parquet.read_table(tmp_path / "t.parquet").to_pydict())
    assert "token=***" in rows and "hunter" not in rows


def test_a_target_within_another_file_system_is_no_local_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["hadd", "simplecache::http://h/f.root?token=hunter2hunter", str(path), str(path)]) == 2
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://user:a/hunter2@h:80/f.root: failed", "http://user:***@h:80/f.root: failed"),
        ("the folder http:/user:hunter2@h does not exist", "the folder http:/user:***@h does not exist"),
        ("http:/hunter2@h", "http:/***@h"),
        ("http://h:8080/a@b/f.root", "http://h:8080/a@b/f.root"),
        ("root://h:1094//eos/a:b@c", "root://h:1094//eos/a:b@c"),
        ("s3://bucket/a:b@c", "s3://bucket/a:b@c"),
        ("https://h/f.root:tree and x@y", "https://h/f.root:tree and x@y"),
    ],
)
def test_passwords_are_found_where_urls_are_not_right(text: str, shown: str) -> None:
    assert without_secrets(text) == shown


def test_options_of_storage_are_for_the_remote_one_of_two_files(server: Server, path: Path) -> None:
    words = ["diff", str(path), server.url(next(iter(server.files))), "--storage", 'headers={"X-Test": "yes"}']
    assert main(words) == 0 and any(heard.get("x-test") == "yes" for heard in server.heard)
    with pytest.raises(sapwood.ArgumentError, match="no such option for a local file: headers"):
        sapwood.open(path, headers={})
