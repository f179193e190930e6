"""Files on XRootD servers: the same arrays as from a local file; logins, TLS, whatever a server may answer."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import multiprocessing
import os
import pickle
import pwd
import random
import shutil
import socket
import socketserver
import sqlite3
import struct
import subprocess
import sys
import threading
import time
import traceback
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import xrootd_events
from other_processes import used_in_a_child
from proxy import Proxy
from xrootd_events import CLUSTERS, ENTRIES, far
from xrootd_servers import Cluster, Single, folder, program, single

import sapwood

path, local, server, pool = xrootd_events.path, xrootd_events.local, xrootd_events.server, xrootd_events.pool
own_surroundings = xrootd_events.own_surroundings

TASK = """
from sapwood import train


class Sum(train.Task):
    branches = ["id"]

    def process(self, events):
        return {"n": len(events)}
"""


def test_the_same_as_local(server: Single, path: Path, local: Any) -> None:
    url = server.url("events.root")
    with sapwood.open(url) as file:
        assert file.keys() == ["t;1"]
        assert file.file.size == path.stat().st_size
        assert ak.array_equal(file["t"].arrays(), local)
        assert ak.array_equal(file["t"].arrays(["x3", "jet"], entry_start=500, entry_stop=70_000),
                              local[["x3", "jet"]][500:70_000])  # fmt: skip
        assert file.file.ledger() == []
    assert ak.array_equal(sapwood.open(f"{url}:t").arrays(["id"]), local[["id"]])
    both = sapwood.concatenate([f"{url}:t", server.url("sub/events.root", "xroot") + ":t"], ["jet"])
    assert ak.array_equal(both[ENTRIES:], local[["jet"]])
    steps = list(sapwood.iterate(f"{url}:t", ["id", "x7"], step_size=17_000))
    assert ak.array_equal(ak.concatenate(steps), local[["id", "x7"]])
    for host in ("127.0.0.1", "[::1]", "[::127.0.0.1]", "somebody@localhost"):
        assert sapwood.open(f"root://{host}:{server.port}//events.root:t").num_entries == ENTRIES
    again = pickle.loads(pickle.dumps(sapwood.open(url)["t"]))
    assert ak.array_equal(again.arrays(["x1"]), local[["x1"]])


def test_requests(server: Single) -> None:
    """No more than one request for each cluster and five to open, for any choice of branches."""
    for branches in (None, [f"x{i}" for i in range(0, 15, 6)], ["jet"]):
        before = sapwood.counters()
        with sapwood.open(server.url("events.root")) as file:
            file["t"].arrays(branches)
        assert sapwood.counters()["read_calls"] - before["read_calls"] <= CLUSTERS + 5


@pytest.mark.alone
def test_latencies(server: Single, local: Any) -> None:
    """What follows on what: connecting, login and opening and the start, the keys and the end, the baskets."""
    with Proxy(server.port, 0.03) as proxy:
        with sapwood.open(far(proxy.port, "events.root")) as file:
            assert ak.array_equal(file["t"].arrays(["x3", "jet"]), local[["x3", "jet"]])
            assert proxy.round_trips == 4
            file["t"].arrays(["x9"])
            assert proxy.round_trips == 5
        # The next file is opened on the same connection.
        with sapwood.open(far(proxy.port, "sub/events.root")) as file:
            assert ak.array_equal(file["t"].arrays(["id"]), local[["id"]])
            assert (proxy.round_trips, proxy.connections) == (8, 1)


@pytest.mark.alone
def test_latencies_of_a_login(path: Path, local: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name costs no latency; if the user says how to log in, what the server offers is waited for, and its yes."""
    with folder() as home:
        (home / "authdb").write_text(f"u {pwd.getpwuid(os.geteuid()).pw_name} /a rl\n")
        with single({"a/e.root": path}, UNIX.format(home=home), home) as server:
            for latencies in (4, 6):
                with Proxy(server.port, 0.03) as proxy, sapwood.open(far(proxy.port, "a/e.root")) as file:
                    assert ak.array_equal(file["t"].arrays(["id"]), local[["id"]])
                    assert proxy.round_trips == latencies
                monkeypatch.setenv("XrdSecPROTOCOL", "unix")


def test_commands(server: Single, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sapwood"]
    url = server.url("events.root")
    done = subprocess.run([*command, "ls", url], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert "t;1  TTree" in done.stdout
    task = tmp_path / "task.py"
    task.write_text(TASK)
    out = tmp_path / "out"
    run = [*command, "run", str(task), "--input", f"{url}:t", "--output", str(out)]
    done = subprocess.run(run, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_fails_says_why(server: Single) -> None:
    with pytest.raises(sapwood.MissingFileError, match="3011 NotFound"):
        sapwood.open(server.url("nothing.root"))
    with pytest.raises(sapwood.StorageError, match="two slashes after the host"):
        sapwood.open(f"root://localhost:{server.port}/events.root")
    with pytest.raises(sapwood.StorageError, match="refused"):
        sapwood.open("root://localhost:9//events.root", retries=0)
    with pytest.raises(sapwood.StorageError, match="not root://HOST"):
        sapwood.open("root://localhost")
    with pytest.raises(sapwood.StorageError, match=r"isDirectory|NotFile"):
        sapwood.open(server.url("sub"))


def _job(urls: list[str], number: int, rounds: int) -> None:
    choose = random.Random(number)
    for _ in range(rounds):
        with sapwood.open(choose.choice(urls), num_workers=choose.choice([1, 4])) as file:
            names = ["id", *choose.sample([f"x{i}" for i in range(15)], 3)]
            total = sum(
                int(ak.sum(step.id)) for step in file["t"].iterate(names, step_size=choose.randrange(9000, 90_000))
            )
        if total != ENTRIES * (ENTRIES - 1) // 2:
            os._exit(1)


def test_eight_jobs(server: Single) -> None:
    """Eight processes at once, fifty times each: none crashes."""
    context = multiprocessing.get_context("spawn")
    urls = [server.url("events.root"), server.url("sub/events.root")]
    jobs = [context.Process(target=_job, args=(urls, number, 50)) for number in range(8)]
    [job.start() for job in jobs]
    [job.join(200) for job in jobs]
    assert [job.exitcode for job in jobs] == [0] * 8


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_handles_in_other_processes(server: Single, method: str) -> None:
    used_in_a_child(server.url("events.root"), method)


def test_through_a_redirector(pool: Cluster, local: Any) -> None:
    with sapwood.open(pool.url("only.root")) as file:
        assert ak.array_equal(file["t"].arrays(), local)
    start = time.monotonic()
    with pytest.raises(sapwood.MissingFileError, match="3011"):
        sapwood.open(pool.url("nothing.root"), timeout=10)
    assert time.monotonic() - start < 15


UNIX = """
xrootd.seclib libXrdSec.so
sec.protocol unix
sec.protbind * only unix
ofs.authorize 1
acc.authdb {home}/authdb
"""


def test_unix(path: Path, local: Any) -> None:
    user = pwd.getpwuid(os.geteuid()).pw_name
    with folder() as home:
        (home / "authdb").write_text(f"u {user} /mine rl\nu * /all rl\n")
        files = {"mine/e.root": path, "all/e.root": path, "others/e.root": path}
        with single(files, UNIX.format(home=home), home) as server:
            for name in ("mine", "all"):
                with sapwood.open(server.url(f"{name}/e.root")) as file:
                    assert ak.array_equal(file["t"].arrays(["id"]), local[["id"]])
            with pytest.raises(sapwood.StorageError, match="3010 NotAuthorized"):
                sapwood.open(server.url("others/e.root"))
            with pytest.raises(sapwood.StorageError, match="3010 NotAuthorized"):
                sapwood.open(server.url("mine/e.root", user="somebody@"))


SSS = """
xrootd.seclib libXrdSec.so
sec.protocol sss -s {home}/server.keytab
sec.protbind * only sss
ofs.authorize 1
acc.authdb {home}/authdb
"""


def _keytab(path: Path) -> None:
    command = [program("xrdsssadmin"), "-k", "alicekey", "-u", "alice", "-g", "users", "add", str(path)]
    subprocess.run(command, input="y\n", text=True, check=True, capture_output=True)
    path.chmod(0o600)


def test_sss(path: Path, local: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A shared secret: the right one, none, another one, one that others may read."""
    program("xrdsssadmin")
    monkeypatch.setenv("HOME", str(tmp_path))
    right, wrong = tmp_path / "right.keytab", tmp_path / "wrong.keytab"
    _keytab(right)
    time.sleep(1.1)  # keys are numbered by the second
    _keytab(wrong)
    with folder() as home:
        shutil.copyfile(right, home / "server.keytab")
        (home / "server.keytab").chmod(0o600)
        (home / "authdb").write_text("u alice /a rl\n")
        with single({"a/e.root": path, "b/e.root": path}, SSS.format(home=home), home) as server:
            url = server.url("a/e.root")
            with pytest.raises(sapwood.StorageError, match="login refused: sss: there is no keytab"):
                sapwood.open(url)
            monkeypatch.setenv("XrdSecSSSKT", str(wrong))
            with pytest.raises(sapwood.StorageError, match=r"login refused: sss: .*[Kk]ey not found"):
                sapwood.open(url)
            monkeypatch.setenv("XrdSecSSSKT", str(right))
            with sapwood.open(url) as file:
                assert ak.array_equal(file["t"].arrays(["id"]), local[["id"]])
            with pytest.raises(sapwood.StorageError, match="3010 NotAuthorized"):
                sapwood.open(server.url("b/e.root"))
            right.chmod(0o644)
            monkeypatch.setenv("XrdSecPROTOCOL", "sss")
            with pytest.raises(sapwood.StorageError, match="other users can read this file"):
                sapwood.open(url)
            monkeypatch.setenv("XrdSecPROTOCOL", "unix")
            with pytest.raises(sapwood.StorageError, match="XrdSecPROTOCOL excludes all logins"):
                sapwood.open(url)


def _certificates(folder: Path) -> None:
    """Make an authority and a certificate for localhost; the folder `ca` is as grids have it."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl (apt-get install openssl)")

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    new = ["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    openssl(*new, "-x509", "-subj", "/CN=Test CA", "-keyout", "ca.key", "-out", "ca.pem")
    openssl(*new, "-subj", "/CN=localhost", "-keyout", "host.key", "-out", "host.csr")
    (folder / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1,IP:::1\n")
    openssl("x509", "-req", "-in", "host.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
            "-days", "2", "-extfile", "names", "-out", "host.pem")  # fmt: skip
    (folder / "ca").mkdir()
    shutil.copyfile(folder / "ca.pem", folder / "ca" / "ca.pem")
    openssl("rehash", "ca")
    (folder / "host.key").chmod(0o600)


TLS = """
xrd.tls {home}/host.pem {home}/host.key
xrd.tlsca certfile {home}/ca.pem
xrootd.tls {which}
"""


@pytest.mark.parametrize("which", ["capable all", "all"])
def test_tls(path: Path, local: Any, which: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked for by the URL, or demanded by the server; refused if the certificate is nobody's."""
    with folder() as home:
        _certificates(home)
        with single({"events.root": path}, TLS.format(home=home, which=which), home) as server:
            monkeypatch.setenv("X509_CERT_DIR", str(home / "ca"))
            schemes = ["roots", "root"]
            for scheme in schemes:
                with sapwood.open(server.url("events.root", scheme)) as file:
                    assert ak.array_equal(file["t"].arrays(), local), scheme
                    assert ak.array_equal(file["t"].arrays(["x3", "jet"]), local[["x3", "jet"]])
            monkeypatch.delenv("X509_CERT_DIR")
            monkeypatch.setenv("SSL_CERT_FILE", str(home / "ca.pem"))
            assert sapwood.open(server.url("events.root:t", "roots")).num_entries == ENTRIES
            monkeypatch.setenv("SSL_CERT_FILE", "/dev/null")
            with pytest.raises(sapwood.StorageError, match="TLS"):
                sapwood.open(server.url("events.root", "roots"), retries=0)
    with single({"events.root": path}) as plain, pytest.raises(sapwood.StorageError, match="does not support it"):
        sapwood.open(plain.url("events.root", "roots"))


TOKENS = """
xrootd.seclib libXrdSec.so
sec.protocol ztn
sec.protbind * only ztn
ofs.authorize 1
acc.authdb {home}/authdb
ofs.authlib ++ libXrdAccSciTokens.so config={home}/scitokens.cfg
"""
ISSUER = "https://localhost:9999"


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _issuer(home: Path) -> Callable[[str], str]:
    """Put an issuer's key where the server looks for it; gives what makes tokens of a scope."""
    subprocess.run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", "issuer.key"],
                   cwd=home, check=True, capture_output=True)  # fmt: skip
    public = subprocess.run(["openssl", "ec", "-in", "issuer.key", "-pubout", "-outform", "DER"],
                            cwd=home, check=True, capture_output=True).stdout[-64:]  # fmt: skip
    now = int(time.time())
    key = {"kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": "k1",
           "x": _base64(public[:32]), "y": _base64(public[32:])}  # fmt: skip
    known = {"expires": now + 86_400, "next_update": now + 86_400, "jwks": {"keys": [key]}}
    cache = home / "cache" / "scitokens"
    cache.mkdir(parents=True)
    with contextlib.closing(sqlite3.connect(cache / "scitokens_cpp.sqllite")) as database:
        database.execute("CREATE TABLE keycache (issuer text UNIQUE PRIMARY KEY NOT NULL, keys text NOT NULL)")
        database.execute("INSERT INTO keycache VALUES (?, ?)", (ISSUER, json.dumps(known)))
        database.commit()
    audience = "https://wlcg.cern.ch/jwt/v1/any"
    (home / "scitokens.cfg").write_text(
        f"[Global]\naudience = {audience}\n[Issuer test]\nissuer = {ISSUER}\nbase_path = /prot\n"
    )

    def token(scope: str) -> str:
        head = {"alg": "ES256", "typ": "JWT", "kid": "k1"}
        claims = {"iss": ISSUER, "sub": "me", "aud": audience, "scope": scope, "wlcg.ver": "1.0",
                  "iat": now, "nbf": now - 10, "exp": now + 3600, "jti": scope}  # fmt: skip
        text = ".".join(_base64(json.dumps(part).encode()) for part in (head, claims))
        signed = subprocess.run(["openssl", "dgst", "-sha256", "-sign", "issuer.key"],
                                cwd=home, check=True, capture_output=True, input=text.encode()).stdout  # fmt: skip
        # Two numbers, each behind its kind and its length.
        first = signed[4 : 4 + signed[3]]
        second = signed[6 + signed[3] :]
        return f"{text}.{_base64(b''.join(n[-32:].rjust(32, bytes(1)) for n in (first, second)))}"

    return token


def test_tokens(path: Path, local: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token of the right scope, from a variable and from a file; another scope; none. TLS comes by itself."""
    program("xrootd")
    if not any(Path("/usr/lib").rglob("libXrdAccSciTokens-5.so")):
        pytest.skip("tokens are not supported by the server (apt-get install xrootd-scitokens-plugins)")
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/nonexistent")
    with folder() as home:
        _certificates(home)
        (home / "authdb").write_text("")
        token = _issuer(home)
        monkeypatch.setenv("X509_CERT_DIR", str(home / "ca"))
        monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
        extra = TLS.format(home=home, which="capable all") + TOKENS.format(home=home)
        with single({"prot/e.root": path}, extra, home) as server:
            for scheme in ("roots", "root"):
                url = server.url("prot/e.root", scheme)
                monkeypatch.delenv("BEARER_TOKEN_FILE", raising=False)
                monkeypatch.setenv("BEARER_TOKEN", token("storage.read:/"))
                with sapwood.open(url) as file:
                    assert ak.array_equal(file["t"].arrays(["id"]), local[["id"]])
                monkeypatch.setenv("BEARER_TOKEN", token("storage.create:/"))
                with pytest.raises(sapwood.StorageError, match="3010 NotAuthorized"):
                    sapwood.open(url)
                monkeypatch.setenv("BEARER_TOKEN", "x.y.z")
                with pytest.raises(sapwood.StorageError, match="login refused: ztn"):
                    sapwood.open(url)
                monkeypatch.delenv("BEARER_TOKEN")
                with pytest.raises(sapwood.StorageError, match="login refused: ztn"):
                    sapwood.open(url)
                (home / "token").write_text(token("storage.read:/") + "\n")
                (home / "token").chmod(0o600)
                monkeypatch.setenv("BEARER_TOKEN_FILE", str(home / "token"))
                assert sapwood.open(f"{url}:t").num_entries == ENTRIES


# What a server may say. Each takes what was asked (stream, kind, parameters, body) and gives bytes to send.


def answer(stream: bytes, status: int, body: bytes) -> bytes:
    return stream + struct.pack(">HI", status, len(body)) + body


class Script(socketserver.BaseRequestHandler):
    """A server of one file that answers as it is told to."""

    def handle(self) -> None:
        server: Any = self.server
        with contextlib.suppress(OSError, EOFError):
            self.exactly(20)
            self.request.sendall(answer(b"\0\0", 0, struct.pack(">II", 0x520, 1)))
            while True:
                head = self.exactly(24)
                stream, kind, parameters = head[:2], struct.unpack(">H", head[2:4])[0], head[4:20]
                body = self.exactly(struct.unpack(">I", head[20:])[0])
                server.log.append((kind, body))
                reply = server.say(stream, kind, parameters, body)
                if reply is None:
                    reply = self.well(stream, kind, parameters, body)
                self.request.sendall(reply)

    def exactly(self, length: int) -> bytes:
        found = b""
        while len(found) < length:
            piece = self.request.recv(length - len(found))
            if not piece:
                raise EOFError
            found += piece
        return found

    def well(self, stream: bytes, kind: int, parameters: bytes, body: bytes) -> bytes:
        """Answer as a good server does."""
        data: bytes = self.server.data  # pyright: ignore[reportAttributeAccessIssue]
        if kind == 3006:
            return answer(stream, 0, struct.pack(">II", 0x520, 1))
        if kind == 3007:
            return answer(stream, 0, bytes(16))
        if kind == 3001 and parameters[1] == 3:
            return answer(stream, 4003, struct.pack(">I", 3013) + b"no checksums")
        if kind == 3001:
            return answer(stream, 0, b"1024\n2097136\n\0")
        if kind == 3010:
            return answer(stream, 0, b"abcd" + bytes(8) + f"1 {len(data)} 16 1700000000\0".encode())
        if kind == 3013:
            offset, length = struct.unpack(">QI", parameters[4:])
            found = data[offset : offset + length]
            half = len(found) // 2
            return answer(stream, 4000, found[:half]) + answer(stream, 0, found[half:])
        if kind == 3025:
            parts = [struct.unpack(">4sIQ", body[i : i + 16]) for i in range(0, len(body), 16)]
            found = b"".join(struct.pack(">4sIQ", *part) + data[part[2] : part[2] + part[1]] for part in parts)
            return answer(stream, 4000, found[:77]) + answer(stream, 0, found[77:])
        return answer(stream, 0, b"")


class Scripted(socketserver.ThreadingTCPServer):
    """Serves bytes as one file; `say` may answer in its place, `log` has what was asked for."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, data: bytes) -> None:
        super().__init__(("127.0.0.1", 0), Script)
        self.data = data
        self.log: list[tuple[int, bytes]] = []
        self.say: Callable[[bytes, int, bytes, bytes], bytes | None] = lambda *_: None

    def handle_error(self, request: object, client_address: object) -> None:
        del request, client_address

    @property
    def url(self) -> str:
        return f"root://127.0.0.1:{self.server_address[1]}//f.root?authz=Bearer%20x"


@pytest.fixture
def scripted(path: Path) -> Iterator[Scripted]:
    with scripting(path.read_bytes()) as server:
        yield server


@contextlib.contextmanager
def scripting(data: bytes) -> Iterator[Scripted]:
    with Scripted(data) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_what_servers_may_answer(scripted: Scripted, local: Any) -> None:
    """Waits, answers that come later, redirections, parts of answers: all lead to the same."""
    said: set[str] = set()

    def once(what: str) -> bool:
        new = what not in said
        said.add(what)
        return new

    def say(stream: bytes, kind: int, _parameters: bytes, body: bytes) -> bytes | None:
        port = scripted.server_address[1]
        if kind == 3010 and once("wait"):
            return answer(stream, 4005, struct.pack(">I", 0) + b"soon")
        if kind == 3010 and once("redirect"):
            return answer(stream, 4004, struct.pack(">I", port) + b"[::127.0.0.1]?secret=1?token")
        if kind == 3010 and once("url"):
            return answer(stream, 4004, struct.pack(">i", -1) + f"root://localhost:{port}//other.root?y=2".encode())
        if kind == 3010 and once("later"):
            stat = f"1 {len(scripted.data)} 16 1700000000\0".encode()
            late = answer(stream, 0, b"abcd" + bytes(8) + stat)
            attention = answer(b"\0\0", 4001, struct.pack(">II", 5008, 0) + late)
            return answer(stream, 4006, struct.pack(">I", 5)) + answer(b"\0\0", 4001, b"\0\0\x13\x8ahello") + attention
        if kind in {3013, 3025} and once(f"wait {kind}"):
            return answer(stream, 4005, struct.pack(">I", 0))
        return None

    scripted.say = say
    with sapwood.open(scripted.url) as file:
        assert ak.array_equal(file["t"].arrays(["x1", "x9", "jet"]), local[["x1", "x9", "jet"]])
        waits = ("asks to wait", "keeps delaying the read")
        assert all(any(text in entry.reason for text in waits) for entry in file.file.ledger())
    opened = [body.decode() for kind, body in scripted.log if kind == 3010]
    assert opened[0] == "/f.root?authz=Bearer%20x"
    assert opened[2] == "/f.root?authz=Bearer%20x&secret=1"
    assert opened[3] == "/other.root?authz=Bearer%20x&secret=1&y=2"
    assert (3007, b"token") in scripted.log
    assert said == {"wait", "redirect", "url", "later", "wait 3013", "wait 3025"}


def test_a_server_that_always_delays_is_asked_a_few_times(scripted: Scripted) -> None:
    def say(stream: bytes, kind: int, _parameters: bytes, _body: bytes) -> bytes | None:
        return answer(stream, 4005, struct.pack(">I", 0) + b"soon") if kind in {3010, 3004} else None

    scripted.say = say
    with pytest.raises(sapwood.StorageError, match="asks to wait"):
        sapwood.open(scripted.url, timeout=1, retries=0)
    # Each pause of a tenth of a second may have two requests.
    assert 2 < sum(kind == 3010 for kind, _ in scripted.log) < 30


@pytest.mark.parametrize(
    ("kind", "status", "body", "message"),
    [
        (3006, 0, b"", "too short"),
        (3007, 4003, b"\0\0", "too short"),
        (3007, 0, bytes(16) + b"&P=gsi,v:10600&P=krb5,x", "gsi: not supported"),
        (3010, 4003, struct.pack(">I", 3005) + b"disk\xff broken", "FSError. disk"),
        (3010, 4003, struct.pack(">I", 3022) + b"sign", "signed requests"),
        (3010, 4004, struct.pack(">i", -1) + b"http://elsewhere/x", "a redirection to"),
        (3010, 4242, b"", "unknown kind"),
        (3010, 0, b"abc", "too short"),
        (3010, 4005, struct.pack(">I", 100_000) + b"tape", "not opened in time .last: .*tape"),
        (3025, 0, bytes(1 << 20), "the answer is longer than the request"),
        (3025, 4003, struct.pack(">I", 3007), "IOError"),
        (3025, 4001, struct.pack(">I", 5000) + b"go away", "ends the session"),
    ],
)
def test_what_servers_must_not_answer(scripted: Scripted, kind: int, status: int, body: bytes, message: str) -> None:
    scripted.say = lambda stream, asked, *_: answer(stream, status, body) if asked == kind else None
    start = time.monotonic()
    with pytest.raises((sapwood.StorageError, FileNotFoundError), match=message):
        sapwood.open(scripted.url, timeout=2, retries=1)
    assert time.monotonic() - start < 10


@pytest.mark.parametrize("kind", [3007, 3010, 3013])
def test_texts_of_servers_reach_the_terminal_without_control_characters(scripted: Scripted, kind: int) -> None:
    said = struct.pack(">I", 3007) + "\x1b]0;title\x07\x1b[31m\u202egpj.exe\x9b2J\r".encode()
    scripted.say = lambda stream, asked, *_: (
        answer(stream, 4003, said) if asked == kind or (kind, asked) == (3013, 3025) else None
    )
    with pytest.raises(sapwood.StorageError) as caught, sapwood.open(scripted.url, retries=0, timeout=5) as file:
        file["t"].arrays(["x1"])
    command = [sys.executable, "-m", "sapwood", "ls", scripted.url, "--storage", "retries=0", "--storage", "timeout=5"]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 1
    for text in ("".join(traceback.format_exception(caught.value)), done.stderr.decode()):
        assert "title" in text
        assert not set("\x1b\x07\u202e\x9b\r") & set(text), repr(text)


def test_a_disk_that_fails(scripted: Scripted) -> None:
    """What a server says in the middle of reading is in the error and in the ledger, with the server's name."""
    with sapwood.open(scripted.url, retries=2) as file:
        tree = file["t"]
        error = struct.pack(">I", 3007) + b"disk on fire"
        scripted.say = lambda stream, kind, *_: answer(stream, 4003, error) if kind in {3013, 3025} else None
        with pytest.raises(sapwood.StorageError, match=r"127.0.0.1:\d+: .3007 IOError. disk on fire, after 3 attempts"):
            tree.arrays(["x1"])
        assert [entry.again for entry in file.file.ledger()] == [True, True, False]
        scripted.say = lambda *_: None
        assert len(tree.arrays(["x1"])) == ENTRIES


def test_a_server_that_does_not_say_what_the_file_is_now(scripted: Scripted) -> None:
    """It costs one wait, which is listed, and the connection stays."""
    scripted.say = lambda _stream, kind, *_: b"" if kind == 3017 else None
    with sapwood.open(scripted.url, prior=None, timeout=2, num_workers=1) as file:
        for _ in range(3):
            assert len(file["t"].arrays(["x1"])) == ENTRIES
        (entry,) = file.file.ledger()
        assert "does not report the state of the file" in entry.reason
        assert not entry.again
    kinds = [kind for kind, _ in scripted.log]
    assert kinds.count(3007) == kinds.count(3010) == 1
    assert kinds.count(3017) == 1


@pytest.mark.parametrize("code", [3000, 3006, 3013])
def test_pages_that_are_refused(scripted: Scripted, code: int) -> None:
    """A server that says that it gives pages and does not is read without, from then on."""

    def say(stream: bytes, kind: int, *_: bytes) -> bytes | None:
        if kind == 3006:
            return answer(stream, 0, struct.pack(">II", 0x520, 1 | 0x200000))
        return answer(stream, 4003, struct.pack(">I", code) + b"no pages") if kind == 3030 else None

    scripted.say = say
    # One after the other: those side by side would each be refused.
    with sapwood.open(scripted.url, prior="memory", num_workers=1, retries=0) as file:
        assert file["t"].num_entries == ENTRIES
        (entry,) = file.file.ledger()
        assert "does not send pages with checksums" in entry.reason
    assert [kind for kind, _ in scripted.log].count(3030) == 1


def test_checksums_of_copies(scripted: Scripted, path: Path, local: Any) -> None:
    """What was copied whole is compared with what the server says it comes to."""
    right = f"{zlib.adler32(scripted.data):08x}"
    said: list[str] = []
    asked: list[bytes] = []

    def say(stream: bytes, kind: int, parameters: bytes, body: bytes) -> bytes | None:
        if kind != 3001 or parameters[1] != 3:
            return None
        asked.append(body)
        return answer(stream, 0, f"adler32 {said.pop(0) if said else right}\0".encode())

    scripted.say = say
    for prior in ("memory", "disk"):
        with sapwood.open(scripted.url, prior=prior) as file:
            assert ak.array_equal(file["t"].arrays(["id"]), local[["id"]])
            assert file.file.ledger() == []
    assert asked == [b"/f.root?authz=Bearer%20x"] * 2
    # The copy is thought wrong once, and made again; a second time, and another server has a right one.
    said[:] = ["12345678"]
    with sapwood.open(scripted.url, prior="memory") as file:
        assert ak.array_equal(file["t"].arrays(["id"]), local[["id"]])
        (entry,) = file.file.ledger()
        assert (entry.offset, entry.length, entry.again) == (0, len(scripted.data), True)
        assert f"(adler32): the server reports 12345678, the received bytes have {right}" in entry.reason
    said[:] = ["12345678"] * 2
    with pytest.raises(sapwood.StorageError, match="wrong checksum of the whole file"):
        sapwood.open(scripted.url, prior="memory")
    said[:] = ["12345678"] * 2
    with (
        single({"f.root": path}) as second,
        sapwood.open(scripted.url, prior="memory", replicas=[second.url("f.root")]) as file,
    ):
        assert ak.array_equal(file["t"].arrays(["id"]), local[["id"]])
        assert [entry.again for entry in file.file.ledger()] == [True, False]
    # As a real server says it: later, by itself.
    with single({"f.root": path}, "xrootd.chksum max 2 adler32 md5\n") as real:
        for kind in ("adler32", "md5"):
            # Far enough away that the server is not in a hurry.
            with (
                Proxy(real.port, 0.1) as proxy,
                sapwood.open(f"{far(proxy.port, 'f.root')}?cks.type={kind}", prior="memory") as file,
            ):
                assert file.file.ledger() == []
        wanted = [f"{zlib.adler32(scripted.data):08x}", hashlib.md5(scripted.data).hexdigest()]
        assert [word in real.checksums("f.root") for word in wanted] == [True, True]


def test_checksums_that_do_not_come(path: Path, local: Any) -> None:
    """They are asked for once, hold nothing up, and are listed; but not where a server has none."""
    for code, why in ((None, "the server did not answer in time"), (3012, "3012 ServerError"), (3013, None)):
        with scripting(path.read_bytes()) as server:
            asked: list[bytes] = []

            def say(
                stream: bytes,
                kind: int,
                parameters: bytes,
                body: bytes,
                code: int | None = code,
                asked: list[bytes] = asked,
            ) -> bytes | None:
                if kind != 3001 or parameters[1] != 3:
                    return None
                asked.append(body)
                return b"" if code is None else answer(stream, 4003, struct.pack(">I", code) + b"no\0")

            server.say = say
            for again in (False, True):
                with sapwood.open(server.url, prior="memory", deadline=4) as file:
                    assert ak.array_equal(file["t"].arrays(["id"]), local[["id"]])
                    listed = [entry.reason for entry in file.file.ledger()]
                assert len(listed) == (why is not None)
                assert all(("did not answer an earlier query" if again else str(why)) in reason for reason in listed)
            assert len(asked) == (1 if why else 2)
    # A real one that was not told to make any.
    with single({"f.root": path}) as real, sapwood.open(real.url("f.root"), prior="memory") as file:
        assert file.file.ledger() == []


def test_redirections_without_end(scripted: Scripted) -> None:
    port = struct.pack(">I", scripted.server_address[1])
    scripted.say = lambda stream, kind, *_: answer(stream, 4004, port + b"127.0.0.1") if kind == 3010 else None
    with pytest.raises(sapwood.StorageError, match="too many redirects"):
        sapwood.open(scripted.url)


def test_a_length_that_nobody_can_hold(scripted: Scripted) -> None:
    """Answers that announce two gigabytes, or more than there is, cost no memory."""
    scripted.say = lambda stream, kind, *_: stream + struct.pack(">HI", 4003, 0x7FFFFFFF) if kind == 3007 else None
    with pytest.raises(sapwood.StorageError, match="not an XRootD server"):
        sapwood.open(scripted.url, retries=0)
    scripted.say = lambda stream, kind, *_: stream + struct.pack(">HI", 4003, 0xFFFFFFFF) if kind == 3010 else None
    with pytest.raises(sapwood.StorageError, match="negative length"):
        sapwood.open(scripted.url, retries=0)


def test_something_else_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def greet() -> None:
            with contextlib.suppress(OSError):
                while True:
                    client, _ = listener.accept()
                    client.sendall(b"220 mail.example.org ESMTP\r\n")
                    client.close()

        thread = threading.Thread(target=greet, daemon=True)
        thread.start()
        with pytest.raises(sapwood.StorageError, match="not an XRootD server"):
            sapwood.open(f"root://127.0.0.1:{listener.getsockname()[1]}//x", retries=0)
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()


def test_leaving_in_the_middle(server: Single) -> None:
    """What is in flight when nobody wants it any more is let go; the process ends."""
    code = (
        "import sapwood\n"
        f"tree = sapwood.open({server.url('events.root')!r} + ':t')\n"
        "steps = tree.iterate(step_size=1000)\n"
        "next(steps)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_pool_of_the_sites(path: Path, tmp_path: Path) -> None:
    """`sites/xrootd-pool` starts a redirector and three servers, runs a train on them, and ends them."""
    program("cmsd")
    pool = Path(__file__).resolve().parents[2] / "sites" / "xrootd-pool" / "pool.sh"
    (tmp_path / "task.py").write_text(TASK)
    other = tmp_path / "other.root"
    shutil.copyfile(path, other)
    command = [pool, "task.py", path, other, "-o", "out"]
    package = Path(sapwood.__file__).parent.parent
    environment = os.environ | {"PYTHON": sys.executable, "PYTHONPATH": str(package)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads((tmp_path / "out" / "results.json").read_text())["results"]["sum"]["n"] == 2 * ENTRIES


def test_blocks_are_kept(server: Single, local: Any, tmp_path: Path) -> None:
    """The second time only what opening needs is asked for."""
    for again in (False, True):
        with sapwood.open(server.url("events.root"), block_cache=tmp_path / "blocks") as file:
            assert ak.array_equal(file["t"].arrays(["x3", "jet"]), local[["x3", "jet"]])
            counters = file.file.counters()
            # What opening reads tells which version it is.
            assert (counters["read_calls"] == 1) == again
            assert (counters["bytes_kept"] > local["jet"].nbytes) == again


def test_patterns(server: Single, path: Path) -> None:
    """Folders are listed: names, brackets, braces, folders below."""

    def found(pattern: str) -> list[str]:
        start = server.url("")
        return [name.removeprefix(start) for name, _, entries in sapwood.num_entries(f"{start}{pattern}:t") if entries]

    both = ["events.root", "sub/events.root"]
    assert found("*.root") == both[:1]
    assert found("s*/ev[d-f]nts.root") == both[1:]
    assert found("**/*.root") == both
    assert found("{sub/,}events.root") == both[::-1]
    names = [name for name, _, _ in sapwood.num_entries({server.url("*.root?authz=x"): "t"})]
    assert names == [server.url("events.root?authz=x")]
    for nothing in ("x*.root", "sub/*/events.root"):
        with pytest.raises(sapwood.MissingFileError, match="no file matches"):
            found(nothing)
    with pytest.raises(sapwood.MissingFileError, match="3011"):
        found("nothing/*.root")
    steps = sapwood.iterate({server.url("**/*.root"): "t"}, ["id"], step_size=ENTRIES)
    assert sum(len(step) for step in steps) == 2 * ENTRIES


def test_patterns_by_way_of_a_redirector(pool: Cluster) -> None:
    """What any of its servers has is there once."""
    names = [name for name, _, _ in sapwood.num_entries(pool.url("*.root") + ":t")]
    assert names == [pool.url("both.root"), pool.url("only.root")]
    assert [name for name, _, _ in sapwood.num_entries(pool.url("sub/*.root") + ":t")] == [pool.url("sub/deep.root")]
    with pytest.raises(sapwood.MissingFileError, match="nowhere"):
        list(sapwood.num_entries(pool.url("nowhere/*.root") + ":t"))


def test_copied_first_where_that_pays(path: Path, tmp_path: Path) -> None:
    """As over HTTP: what is small for the latency, if the file before was read for the most part."""
    small = tmp_path / "small.root"
    with sapwood.recreate(small) as out:
        out.mktree("t", {"x": "float64"}).extend({"x": np.random.default_rng(1).normal(size=50_000)})
    with single({f"{i}.root": small for i in range(3)}) as server, Proxy(server.port, 0.03) as proxy:
        for i in range(3):
            with sapwood.open(far(proxy.port, f"{i}.root")) as file:
                file["t"].arrays()
                before = proxy.requests
                file["t"].arrays()
                assert (proxy.requests == before) == (i > 0), i
