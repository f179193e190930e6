"""Files in S3, on servers that are not ours: the same arrays as from a local file, for those who may read them."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qsl

import awkward as ak
import numpy as np
import pytest
from servers import S3_KEYS, s3

import sapwood
from sapwood.storage import credentials

ENTRIES = 40_000
KEY, SECRET = S3_KEYS


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write two files to a bucket, one of them in a folder whose name must be quoted."""
    data = tmp_path_factory.mktemp("s3")
    random = np.random.default_rng(3)
    columns: dict[str, Any] = {f"x{i}": random.normal(size=ENTRIES) for i in range(12)}
    columns |= {"id": np.arange(ENTRIES), "jet": ak.unflatten(random.normal(size=2 * ENTRIES), np.arange(ENTRIES) % 5)}
    types = dict.fromkeys(columns, "float64") | {"id": "int64", "jet": "var * float64"}
    for name in ("events.root", "a b/events-2.root"):
        path = data / "bucket" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with sapwood.recreate(path, compression=sapwood.LZ4(1)) as out:
            out.mktree("t", types, auto_flush=ENTRIES // 8).extend(columns)
    return data


class _TokenService(BaseHTTPRequestHandler):
    """Lends the keys of the servers to who shows the right token."""

    seen: ClassVar[list[dict[str, str]]] = []

    def do_POST(self) -> None:
        asked = dict(parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
        self.seen.append(asked)
        good = asked["WebIdentityToken"] == "good"
        lent = f"<AccessKeyId>{KEY}</AccessKeyId><SecretAccessKey>{SECRET}</SecretAccessKey>"
        text = (
            f"<a>{lent}<Expiration>2999-01-01T00:00:00Z</Expiration></a>"
            if good
            else f"<Message>no such token: {asked['WebIdentityToken']}</Message>"
        )
        self.send_response(200 if good else 400)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *args: object) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Write nothing."""


def test_keys_of_profiles_and_web_identities(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "credentials").write_text("[default]\naws_access_key_id=a\naws_secret_access_key=b\n", "utf-8")
    (tmp_path / "config").write_text("[default]\nregion=nowhere\n[profile other]\nsso_region=x\n", "utf-8")
    for name in ("credentials", "config"):
        monkeypatch.setenv(
            "AWS_SHARED_CREDENTIALS_FILE" if name == "credentials" else "AWS_CONFIG_FILE", str(tmp_path / name)
        )
    assert credentials.find_keys({}) == ("a", "b", None)
    assert credentials.find_region() == "nowhere"
    assert credentials.find_keys({"key": "k", "secret": "s", "token": "t"}) == ("k", "s", "t")
    monkeypatch.setenv("AWS_PROFILE", "other")
    assert credentials.find_keys({}) is None
    assert credentials.has_profile()
    with ThreadingHTTPServer(("127.0.0.1", 0), _TokenService) as service:
        threading.Thread(target=service.serve_forever, daemon=True).start()
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", f"http://127.0.0.1:{service.server_port}")
        monkeypatch.setenv("AWS_ROLE_ARN", "arn:role")
        for name, token in (("good", "good"), ("bad", "bad")):
            (tmp_path / name).write_text(token, "utf-8")
            monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / name))
            if token == "good":
                assert [credentials.find_keys({}) for _ in range(2)] == [(KEY, SECRET, None)] * 2
                assert [asked["RoleArn"] for asked in _TokenService.seen] == ["arn:role"]
            else:
                with pytest.raises(sapwood.StorageError, match=r"no such token: \*\*\*"):
                    credentials.find_keys({})
        service.shutdown()
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "absent"))
    with pytest.raises(sapwood.StorageError, match="cannot get keys for role arn:role"):
        sapwood.open("s3://bucket/events.root")


class _Repeating(BaseHTTPRequestHandler):
    """Refuses each request, and repeats its headers."""

    def do_GET(self) -> None:
        text = f"<Error><Code>AccessDenied</Code><Message>{dict(self.headers)}</Message></Error>"
        self.send_response(403)
        self.send_header("Content-Type", "application/xml")
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *args: object) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Write nothing."""


def test_secrets_that_a_server_repeats_are_not_in_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Repeating) as service:
        threading.Thread(target=service.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{service.server_port}"
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
        for path, options in (
            ("s3://bucket/x.root", {"key": "access-key", "secret": "the-secret", "token": "session-token"}),
            (f"{url}/x.root", {"headers": {"Authorization": "Bearer session-token", "Accept-Language": "de"}}),
        ):
            with pytest.raises(sapwood.StorageError, match="AccessDenied") as caught:
                sapwood.open(path, **options)
            text = str(caught.value)
            assert "***" in text and "session-token" not in text and "the-secret" not in text
            assert "accept-language" in text.lower() or "access-key" in text
        service.shutdown()


@pytest.mark.parametrize(
    "answer",
    [
        b"no answer of HTTP\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA: " + bytes(70_000),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 400 Bad\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
    ids=["garbage", "long header", "chunk", "chunk of an error"],
)
def test_a_token_service_that_does_not_answer_in_http(
    answer: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("good", "utf-8")
    with socket.create_server(("127.0.0.1", 0)) as service:

        def serve() -> None:
            client, _ = service.accept()
            with client:
                client.recv(1 << 16)
                client.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", f"http://127.0.0.1:{service.getsockname()[1]}")
        monkeypatch.setenv("AWS_ROLE_ARN", "arn:role")
        monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
        with pytest.raises(sapwood.StorageError, match="keys for role arn:role"):
            credentials.find_keys({})
        thread.join()


@pytest.mark.parametrize("begin", [b"", b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 400 Bad\r\n\r\n"])
def test_a_slow_token_service_is_not_waited_for(begin: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").write_text("good", "utf-8")
    monkeypatch.setattr(credentials, "_PATIENCE", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as service:

        def serve() -> None:
            client, _ = service.accept()
            with client, suppress(OSError):
                client.sendall(begin)
                while not ended.wait(0.1):
                    client.sendall(b"H")

        ended = threading.Event()
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", f"http://127.0.0.1:{service.getsockname()[1]}")
        monkeypatch.setenv("AWS_ROLE_ARN", "arn:role")
        monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
        began = time.monotonic()
        with pytest.raises(sapwood.StorageError, match=r"keys for role arn:role .*no answer within 0\.5 s"):
            credentials.find_keys({})
        assert time.monotonic() - began < 5
        ended.set()
        thread.join()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"key": 1, "secret": "s"}, "key is a string, not a int"),
        ({"key": "k", "secret": 987654}, "secret is a string"),
        ({"key": "k", "secret": "s", "token": b"t"}, "token is a string"),
        ({"anon": True, "endpoint_url": 5}, "endpoint_url is a string"),
        ({"anon": True, "client_kwargs": 5}, "client_kwargs is a dict"),
        ({"anon": True, "client_kwargs": {"region_name": 5}}, "region_name is a string"),
    ],
)
def test_options_of_other_types_are_named(options: dict[str, Any], said: str) -> None:
    with pytest.raises(sapwood.ArgumentError, match=said) as caught:
        sapwood.open("s3://bucket/events.root", **options)
    assert "987654" not in str(caught.value)


@pytest.fixture(autouse=True)
def own_surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    names = [
        "ACCESS_KEY_ID",
        "SECRET_ACCESS_KEY",
        "SESSION_TOKEN",
        "PROFILE",
        "REGION",
        "DEFAULT_REGION",
        "ENDPOINT_URL",
    ]
    for name in [*names, "ENDPOINT_URL_STS", "ROLE_ARN", "WEB_IDENTITY_TOKEN_FILE"]:
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "absent"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "absent"))
    yield


@pytest.mark.parametrize("server", ["rclone", "versitygw"])
def test_with_keys(server: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    near = sapwood.open(data / "bucket" / "events.root")["t"].arrays()
    with s3(server, data, tmp_path) as endpoint:
        options = {"key": KEY, "secret": SECRET, "endpoint_url": endpoint}
        with sapwood.open("s3://bucket/events.root", **options) as file:
            assert file.file.size == (data / "bucket" / "events.root").stat().st_size
            assert ak.array_equal(file["t"].arrays(), near)
            assert ak.array_equal(file["t"].arrays(["x3", "jet"], entry_start=9000), near[["x3", "jet"]][9000:])
            assert file.file.ledger() == []
        steps = sapwood.iterate("s3://bucket/a b/events-2.root:t", ["id", "jet"], step_size=7000, **options)
        assert ak.array_equal(ak.concatenate(list(steps)), near[["id", "jet"]])
        # As the tools of AWS know them.
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        assert ak.array_equal(sapwood.open("s3://bucket/events.root:t").arrays(["x1"]), near[["x1"]])
        with pytest.raises(sapwood.MissingFileError, match="404"):
            sapwood.open("s3://bucket/nothing.root")
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.delenv(name)
        profile = tmp_path / "profile"
        profile.write_text(f"[mine]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n", "utf-8")
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(profile))
        monkeypatch.setenv("AWS_PROFILE", "mine")
        assert ak.array_equal(sapwood.open("s3://bucket/events.root:t").arrays(["x2"]), near[["x2"]])
        with pytest.raises(sapwood.StorageError, match="403"):
            sapwood.open("s3://bucket/events.root", **options | {"secret": "wrong"})
        with pytest.raises(sapwood.StorageError, match=r"400|403"):
            sapwood.open("s3://bucket/events.root", endpoint_url=endpoint, anon=True)


def test_anonymously(data: Path, tmp_path: Path) -> None:
    near = sapwood.open(data / "bucket" / "events.root")["t"].arrays(["jet"])
    with s3("rclone", data, tmp_path, anonymous=True) as endpoint:
        for options in ({"anon": True}, {}):
            with sapwood.open("s3://bucket/events.root:t", endpoint_url=endpoint, **options) as tree:
                assert ak.array_equal(tree.arrays(["jet"]), near)


def test_patterns(data: Path, tmp_path: Path) -> None:
    pytest.importorskip("s3fs", reason="needs s3fs, which lists buckets (pip install s3fs)")
    with s3("rclone", data, tmp_path) as endpoint:
        options: dict[str, Any] = {"key": KEY, "secret": SECRET, "endpoint_url": endpoint}
        found = list(sapwood.num_entries("s3://bucket/**/*.root:t", **options))
        assert found == [(f"s3://bucket/{name}", "t", ENTRIES) for name in ("a b/events-2.root", "events.root")]
