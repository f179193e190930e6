"""The web application of a folder: pages, ranges, a browser, many clients, and hundreds of hostile requests."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import hist
import numpy as np
import pytest
from browser import drawn
from zebra_files import Writer

import sapwood
from sapwood.cli import main
from sapwood.errors import ArgumentError
from sapwood.tools import serving
from sapwood.tools.serving import application

SECRET = b"behind the fence"
NASTY = "<img src=x onerror=alert(1)>"


class Served(NamedTuple):
    """A server that runs, and its folder."""

    port: int
    folder: Path

    def get(self, path: str, method: str = "GET", headers: Mapping[str, str] | None = None) -> tuple[int, Any, bytes]:
        """Return status, headers and body of an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, headers=headers or {})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def page(self, path: str) -> str:
        """Return a page that must be there."""
        status, headers, body = self.get(path)
        assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8"), body
        return body.decode()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Start the command on a folder of files, with what must stay hidden beside it and in it."""
    outside = tmp_path_factory.mktemp("outside")
    folder = outside / "data"
    (folder / "sub").mkdir(parents=True)
    values = np.arange(1000, dtype=np.float32)
    with sapwood.recreate(folder / "events.root", compression=sapwood.ZSTD(5)) as file:
        file["deep/h2"] = hist.Hist.new.Reg(40, 0, 1, name="x").Reg(40, 0, 1, name="y").Double().fill([0.5], [0.5])
        file[NASTY] = hist.Hist.new.Reg(4, 0, 1, name="x", label=NASTY).Double().fill([0.1])
        file.mktree("Events", {"x": "float32", NASTY: "int32"}).extend({"x": values, NASTY: np.arange(1000)})
    (folder / "sub" / "report.html").write_text("<h1>A report</h1>")
    (folder / f"{NASTY}.txt").write_text("a text")
    for name in ("secret.root", "data.root", "data/.hidden.root", "data/key.pem", "data/page.js"):
        (outside / name).write_bytes(SECRET)
    (folder / "out.root").symlink_to(outside / "secret.root")
    (folder / "out").symlink_to(outside)
    (folder / "in.root").symlink_to(folder / "events.root")
    (folder / "round").symlink_to("round")
    os.mkfifo(folder / "pipe.root")
    command = [sys.executable, "-m", "sapwood", "serve", str(folder), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        match = re.search(r"http://127\.0\.0\.1:(\d+)/ ", process.stdout.readline())
        assert match is not None
        yield Served(int(match[1]), folder)
        process.send_signal(2)
        assert process.wait(20) == 0, "Ctrl-C ends it as wanted"


def test_folders_are_listed(served: Served) -> None:
    status, headers, _ = served.get("/")
    assert (status, headers["location"]) == (307, "/files/")
    page = served.page("/files/")
    names = re.findall(r"<td class=\"path\"><a[^>]*>([^<]+)</a>", page)
    assert names == ["sub", "&lt;img src=x onerror=alert(1)&gt;.txt", "events.root", "in.root"]
    assert not re.search("<img|secret|hidden|key.pem|page.js|out.root|pipe", page)
    assert served.get("/files/sub")[1]["location"] == "/files/sub/"
    assert "report.html" in served.page("/files/sub/")


def test_reports_are_served_as_they_are(served: Served) -> None:
    status, headers, body = served.get("/files/sub/report.html")
    assert (status, body) == (200, b"<h1>A report</h1>")
    assert "default-src 'none'; script-src 'sha256-" in headers["content-security-policy"]


def test_keys_of_a_file(served: Served) -> None:
    page = served.page("/keys/events.root")
    assert "<img" not in page
    assert "&lt;img src=x onerror=alert(1)&gt;;1" in page
    assert 'href="/table/events.root?key=Events%3B1"' in page
    assert 'href="/keys/events.root?at=deep"' in page
    below = served.page("/keys/events.root?at=deep")
    assert 'href="/draw/events.root?key=deep/h2%3B1&amp;of=TH2D"' in below.replace("%2F", "/")
    assert "Events" not in below


def test_a_table_has_its_fields_and_layout(served: Served) -> None:
    page = served.page("/table/events.root?key=Events;1")
    assert 'href="/plot/events.root?key=Events%3B1&amp;expression=x"' in page
    assert "Layout" in page
    assert "<img" not in page


def test_a_branch_is_plotted(served: Served) -> None:
    page = served.page("/plot/events.root?key=Events;1&expression=x&bins=10&low=0&high=1000")
    assert len(re.findall("\n100 ± 10</title>", page)) == 10
    few = served.page("/plot/events.root?key=Events;1&expression=x*2&cut=x<50&entries=100&bins=5&low=0&high=100")
    assert len(re.findall("\n10 ± 3.16</title>", few)) == 5
    assert "x&lt;50" in few


def test_an_expression_can_be_mended(served: Served) -> None:
    status, _, body = served.get("/plot/events.root?key=Events;1&expression=zork")
    assert status == 422
    assert b"is neither a branch nor an alias" in body
    assert b'name="expression" value="zork"' in body


def test_answers_say_what_a_page_may_do(served: Served) -> None:
    for path in ("/files/", "/keys/events.root", "/draw/events.root?key=Events", "/nothing", "/files/events.root"):
        _, headers, body = served.get(path)
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "script-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy and headers["x-content-type-options"] == "nosniff"
        assert "unsafe-eval" not in policy.replace("wasm-unsafe-eval", "")
        if b"<html" in body:
            assert not re.search(rb"<script>|<[^>]*\son\w+=|javascript:", body)


def test_ranges(served: Served) -> None:
    data = (served.folder / "events.root").read_bytes()
    size = len(data)
    status, headers, body = served.get("/files/events.root")
    tag = headers["etag"]
    assert (status, headers["accept-ranges"], body) == (200, "bytes", data)
    status, headers, body = served.get("/files/events.root", "HEAD")
    assert (status, headers["content-length"], body) == (200, str(size), b"")
    for text, part in (("0-99", data[:100]), ("-7", data[-7:]), (f"{size - 3}-", data[-3:]), ("5-999999999", data[5:])):
        status, headers, body = served.get("/files/events.root", headers={"range": f"bytes={text}"})
        assert (status, body) == (206, part)
        assert headers["content-range"].endswith(f"/{size}")
    status, headers, body = served.get("/files/events.root", headers={"range": f"bytes={size}-"})
    assert (status, headers["content-range"]) == (416, f"bytes */{size}")
    assert served.get("/files/events.root", headers={"range": "bytes=0-9", "if-range": tag})[0] == 206
    assert served.get("/files/events.root", headers={"range": "bytes=0-9", "if-range": '"other"'})[::2] == (200, data)


def test_many_ranges_in_one_answer(served: Served) -> None:
    data = (served.folder / "events.root").read_bytes()
    wanted = [(start, start + 4) for start in range(0, 2000, 10)]
    ranges = ",".join(f"{start}-{stop - 1}" for start, stop in wanted)
    status, headers, body = served.get("/files/events.root", headers={"range": f"bytes={ranges}"})
    assert status == 206
    boundary = headers["content-type"].partition("boundary=")[2].encode()
    parts = body.split(b"--" + boundary)[1:-1]
    assert [part.partition(b"\r\n\r\n")[2][:-2] for part in parts] == [data[start:stop] for start, stop in wanted]


def test_jsroot_draws_in_a_browser(served: Served, tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{served.port}/draw/events.root?key=deep/h2;1&of=TH2D"
    page = drawn(url, tmp_path, milliseconds=8000)
    assert 'data-state="drawn"' in page
    assert "Entries" in page, "the box with statistics"


def test_fifty_clients_at_a_time(served: Served) -> None:
    paths = [
        "/files/", "/keys/events.root", "/table/events.root?key=Events", "/files/events.root",
        "/plot/events.root?key=Events&expression=x",
    ] * 20  # fmt: skip
    with ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(served.get, paths))
    assert {status for status, _, _ in answers} == {200}
    assert len({body for _, _, body in answers}) == 5


PATHS = [
    "../secret.root", "..%2fsecret.root", "%2e%2e/secret.root", "%2e%2e%2fsecret.root", "%252e%252e%252fsecret.root",
    "sub/../../secret.root", "sub/%2e%2e/%2e%2e/secret.root", "....//secret.root", "..;/secret.root",
    "..%5csecret.root", "..\\secret.root", "/etc/passwd", "//etc/passwd", "%2fetc%2fpasswd", "file:///etc/passwd",
    "C:/secret.root",
    "~root/secret.root", "%c0%ae%c0%ae/secret.root", "%ff%fe", "%00", "events.root%00.txt", "events.root%0d%0aX: y",
    "events.root/", "events.root/../events.root", "./events.root", "sub//report.html", ".hidden.root", "sub/.", "..",
    ".", "out.root", "out/secret.root", "out/data/events.root", "out/", "round", "key.pem", "page.js", "pipe.root",
    "no.root", "a" * 300, "a/" * 300, "%E2%80%AEtoor.root", "events.root:Events", "*", "?",
]  # fmt: skip
"""Paths below a page that lead nowhere, or nowhere allowed."""

RANGES = [
    "", "bytes", "bytes=", "bytes=-", "bytes=a-b", "bytes=1", "bytes=5-1", "bytes=--1", "bytes=1-2-3", "bytes=0x1-0x9",
    "bytes=1_0-2_0", "bytes=+1-+2", "bytes=1e1-2e1", "bytes=-1-", "bytes=1-2,", "bytes=,1-2", "bytes=1-2;3-4",
    "bits=0-1", "lines=0-1", "0-1", "bytes 0-1", "bytes=99999999-", "bytes=99999999-999999999", "bytes=0-1,99999999-",
    "bytes=" + "9" * 30 + "-", "bytes=0-" + "9" * 30, "bytes=" + ",".join(["0-0"] * 257), "bytes=\u00b2-\u00b3",
    "bytes=0-1, b", "bytes=0-1\t,,2-3",
]  # fmt: skip

QUERIES = [
    "", "key=", "key=/", "key=no", "key=Events;99", "key=../../secret.root", "key=Events/../x", "key=%00",
    "key=Events/x/y/z",
    *(f"key=Events&expression={quote(text)}" for text in (
        "", "no", "__import__('os').system('id')", "x.__class__", "open('/etc/passwd')", "(" * 300, "x" * 1001,
        "x +", "'x'",
        "lambda: x", "[x for x in x]", "x; x", "\0", "9**9**9**9", "x[::0", "Events", "exec('1')", "\u202e",
    )),
    *(f"key=Events&expression=x&{rest}" for rest in (
        "bins=0", "bins=-1", "bins=1001", "bins=" + "9" * 40, "bins=x", "bins=1.5", "low=1", "high=1", "low=2&high=1",
        "low=nan&high=1", "low=0&high=inf", "low=x&high=y",
        "entries=-1", "entries=x", "entries=0", "cut=no", "cut=x[",
        "cut=" + "x" * 1001,
    )),
]  # fmt: skip


def hostile() -> Iterator[tuple[str, bytes]]:
    """Make requests that have to be refused, with what they are."""

    def request(path: str, method: str = "GET", host: str | None = "localhost", more: str = "") -> bytes:
        lines = [
            f"{method} {path} HTTP/1.1",
            *([f"Host: {host}"] if host is not None else []),
            more,
            "Connection: close",
        ]
        return ("\r\n".join(line for line in lines if line) + "\r\n\r\n").encode("latin-1", "replace")

    for kind in ("files", "keys", "draw", "table", "static"):
        for path in PATHS:
            if kind == "files" and path in ("?", "out/"):
                continue
            yield f"path /{kind}/{path}", request(f"/{kind}/{path}" + ("&" if "?" in path else "?") + "key=Events")
    for method in (
        "POST",
        "PUT",
        "DELETE",
        "PATCH",
        "OPTIONS",
        "TRACE",
        "CONNECT",
        "PROPFIND",
        "MKCOL",
        "get",
        "QUERY",
    ):
        for path in ("/files/events.root", "/files/", "/keys/events.root"):
            yield f"method {method} {path}", request(path, method)
    for text in RANGES:
        for method in ("GET", "HEAD"):
            yield f"range {text}", request("/files/events.root", method, more=f"Range: {text}")
    for text in QUERIES:
        yield f"query {text}", request(f"/plot/events.root?{text.replace(' ', '+')}")
    for host in (None, "", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "127.0.0.2",
                 "0.0.0.0",
                 "localhost:80:80", "localhost:x", "localhost/", "user@localhost", "[::2]", "::1",
                 "2130706433"):  # fmt: skip
        yield f"host {host}", request("/files/", host=host)
    for more in ("Host: localhost", "Range: bytes=0-1\r\nRange: bytes=2-3", "Content-Length: 5",
                 "Transfer-Encoding: chunked",
                 "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors", "Content-Length: -1", "X: " + "y" * 70_000,
                 "Content-Length: 1\r\nContent-Length: 2", "no colon", "Bad Name: x"):  # fmt: skip
        yield f"header {more[:40]}", request("/files/events.root", more=more)
    for target in ("*", "http://evil.example/", "http://localhost/files/../../secret.root", "files/",
                   "//evil.example/..",
                   "/files/?first=-1", "/files/?first=x", "/files/?first=" + "9" * 5000, "/" + "a" * 9000):  # fmt: skip
        yield f"target {target[:40]}", request(target)
    yield "no HTTP", b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n"
    yield "old HTTP", b"GET /files/events.root\r\n\r\n"


def test_hostile_requests_are_refused(served: Served) -> None:
    requests = list(hostile())
    assert len(requests) >= 300

    def answered(request: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", served.port), timeout=30) as connection:
            connection.sendall(request)
            return b"".join(iter(lambda: connection.recv(1 << 16), b""))

    wrong: list[str] = []
    with ThreadPoolExecutor(8) as pool:
        for (name, _), answer in zip(requests, pool.map(answered, (request for _, request in requests)), strict=True):
            refused = re.match(rb"HTTP/1\.1 4\d\d ", answer)
            if not refused or SECRET in answer or b"root:x:" in answer or str(served.folder).encode() in answer:
                wrong.append(f"{name}: {answer[:200]!r}")
    assert not wrong, "\n".join(wrong)
    assert served.get("/files/events.root")[0] == 200


def asked(app: Any, path: str, headers: Mapping[str, str]) -> tuple[int, dict[str, str], bytes]:
    """Return the answer of an application that no server runs."""
    plain, _, query = path.partition("?")
    scope = {
        "type": "http", "asgi": {"version": "3.0", "spec_version": "2.4"}, "http_version": "1.1", "method": "GET",
        "scheme": "http", "path": plain, "raw_path": plain.encode(), "query_string": query.encode(), "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }  # fmt: skip
    sent: list[Any] = []

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, object]) -> None:
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    found = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], found, b"".join(message.get("body", b"") for message in sent[1:])


def test_histograms_of_hbook_are_drawn_here(tmp_path: Path) -> None:
    writer, title = Writer(), "<img src=x>"
    objects = [((1, 0), writer.one(1, title, (2, 0, 1), [1, 2, 3, 4]), False)]
    objects.append(((2, 0), writer.two(2, title, (3, 0, 3), (5, 0, 1), np.ones((5, 7))), False))
    banks = writer.structure([{"name": "DATA", "io": [0x0002_0000], "data": [5, 6]}], 0)
    (tmp_path / "h.hbook").write_bytes(writer.rz([*objects, ((3, 0), banks, False)]))
    app, host = application(tmp_path), {"host": "127.0.0.1:8765"}
    listed = asked(app, "/keys/h.hbook", host)[2].decode()
    assert listed.count('href="/draw/h.hbook?key=') == 2
    for number in (1, 2):
        status, _, page = asked(app, f"/draw/h.hbook?key={number};1", host)
        assert status == 200 and b"<svg" in page and b"<img" not in page and b"&lt;img src=x&gt;" in page
    assert asked(app, "/draw/h.hbook?key=3;1", host)[0] == 400
    assert asked(app, "/draw/h.hbook?key=4;1", host)[0] == 404


def test_a_token_is_asked_for_and_moves_to_a_cookie(tmp_path: Path) -> None:
    token = "abcdefghijklmnop"
    app = application(tmp_path, hosts=("farm.example",), token=token)
    host = {"host": "farm.example:8765"}
    assert asked(app, "/files/", host)[0] == 401
    assert asked(app, "/static/draw.js", host)[0] == 401
    for wrong in ("?token=", "?token=abcdefghijklmnoq", f"?token={token}&token=x"):
        assert asked(app, f"/files/{wrong}", host)[0] == 401
    status, headers, _ = asked(app, f"//files/?first=0&token={token}", host)
    assert (status, headers["location"]) == (303, "/files/?first=0")
    assert "HttpOnly" in headers["set-cookie"] and "SameSite=lax" in headers["set-cookie"]
    assert asked(app, "/files/", host | {"cookie": headers["set-cookie"].partition(";")[0]})[0] == 200
    assert asked(app, "/files/", host | {"authorization": f"Bearer {token}"})[0] == 200
    assert asked(app, "/files/", host | {"cookie": "sapwood_token=x"})[0] == 401
    assert asked(app, "/files/", {"host": "other.example", "authorization": f"Bearer {token}"})[0] == 421


def test_wrong_arguments_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ArgumentError, match=r"cannot serve .*none: No such file"):
        application(tmp_path / "none")
    assert main(["serve", str(tmp_path), "--port", "70000"]) == 2
    assert main(["serve", str(tmp_path), "--token", "short"]) == 2
    assert main(["serve", str(tmp_path), "--host", "no.such.host.invalid"]) == 1
    assert "cannot listen on no.such.host.invalid" in capsys.readouterr().err


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "sapwood.tools.serving.application", raising=False)
    monkeypatch.delitem(vars(serving), "serve", raising=False)  # without looking it up, which would import it
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(ArgumentError, match=r"pip install 'sapwood\[serve\]'"):
        serving.serve(tmp_path)


def test_a_missing_folder_is_named_even_if_the_port_is_taken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert main(["serve", str(tmp_path / "none"), "--port", port]) == 2
    assert "none" in capsys.readouterr().err


def test_a_file_that_is_removed_meanwhile_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with sapwood.recreate(tmp_path / "events.root") as file:
        file["Events"] = {"x": np.arange(10)}

    def removed(_: Path, __: str) -> None:
        (tmp_path / "events.root").unlink()

    monkeypatch.setattr("sapwood.tools.serving.plots.check", removed)
    status, _, body = asked(application(tmp_path), "/plot/events.root?key=Events&expression=x", {"host": "localhost"})
    assert (status, b"This file cannot be read." in body) == (404, True)


SLOW = """
import sys
from sapwood.tools.serving import patience, serve
patience.PATIENCE = 2.0
serve(sys.argv[1], port=0, started=lambda url: print(url, flush=True))
"""


def test_clients_that_are_slow_are_sent_away(tmp_path: Path) -> None:
    """Otherwise some hundred of them would keep all others out."""
    (tmp_path / "long.txt").write_bytes(bytes(32 << 20))
    with subprocess.Popen([sys.executable, "-c", SLOW, str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline().strip().rstrip("/").rpartition(":")[2])
            clients: list[socket.socket] = []
            whole = b"GET /files/long.txt HTTP/1.1\r\nHost: localhost\r\n\r\n"
            for sent in (b"", whole[:30], whole):
                client = socket.socket()
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                client.connect(("127.0.0.1", port))
                client.settimeout(20)
                client.sendall(sent)
                clients.append(client)
            assert [received(client) for client in clients[:2]] == [0, 0]
            time.sleep(5)  # without taking any of the answer
            assert received(clients[2]) < 32 << 20
        finally:
            process.kill()


def received(client: socket.socket) -> int:
    """Return the number of bytes that a client receives until its connection ends."""
    count = 0
    with client, contextlib.suppress(ConnectionResetError):
        while found := client.recv(1 << 20):
            count += len(found)
    return count


def test_limits_that_no_axis_can_have_are_named(tmp_path: Path) -> None:
    with sapwood.recreate(tmp_path / "events.root") as file:
        file["Events"] = {"x": np.arange(10), "id": np.full(10, 2**60 + 1), "far": np.array([-1.7e308, 1.7e308] * 5)}
    app, host = application(tmp_path), {"host": "localhost"}
    for name, status, text in (
        ("x&low=-1e308&high=1e308", 422, b"too far apart: -1e+308, 1e+308"), ("far", 422, b"too far apart"),
        ("id", 200, b"10 entries"), ("x", 200, b"10 entries"),
    ):  # fmt: skip
        found = asked(app, f"/plot/events.root?key=Events&expression={name}", host)
        assert (found[0], text in found[2]) == (status, True), found
