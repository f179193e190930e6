"""Web servers that demand a certificate of the user: the option `certificate`, proxies, ``davs://``."""

from __future__ import annotations

import pickle
import ssl
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from grid import certificates
from servers import Server, serving

import sapwood


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("grid")
    certificates(path)
    (path / "both.pem").write_text((path / "user.pem").read_text() + (path / "user.key").read_text())
    return path


@pytest.fixture(scope="module")
def server(home: Path) -> Iterator[Server]:
    path = home / "x.root"
    with sapwood.recreate(path) as file:
        file.mktree("t", {"x": np.arange(1000)})
    with serving({"x.root": path.read_bytes()}) as server:
        demands = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=home / "ca.pem")
        demands.verify_mode = ssl.CERT_REQUIRED
        demands.verify_flags |= ssl.VERIFY_ALLOW_PROXY_CERTS
        demands.load_cert_chain(home / "host.pem", home / "host.key")
        server.socket = demands.wrap_socket(server.socket, server_side=True)
        yield server


@pytest.fixture
def address(server: Server, home: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("X509_CERT_DIR", str(home / "certificates"))
    monkeypatch.delenv("X509_USER_PROXY", raising=False)
    return f"localhost:{server.server_address[1]}/x.root"


def total(url: str, **options: object) -> int:
    with sapwood.open(url, **options) as file:
        return int(np.sum(file["t/x"].array(library="np")))


def test_certificates_of_users(address: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for scheme in ("https", "davs"):
        for name in ("both.pem", "x509up"):
            assert total(f"{scheme}://{address}", certificate=home / name) == 499_500
    monkeypatch.setenv("X509_USER_PROXY", str(home / "x509up"))
    for scheme in ("https", "davs"):
        assert total(f"{scheme}://{address}") == 499_500
    file = sapwood.open(f"davs://{address}")
    assert np.sum(pickle.loads(pickle.dumps(file))["t/x"].array(library="np")) == 499_500
    assert len(sapwood.concatenate([f"davs://{address}:t"] * 2)) == 2000


def test_without_a_certificate(address: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(sapwood.StorageError):
        total(f"https://{address}", retries=0)
    monkeypatch.setenv("X509_USER_PROXY", str(home / "nothing"))
    with pytest.raises(sapwood.StorageError, match="nothing"):
        total(f"davs://{address}")
    for wrong, why in (("ca.pem", "no unencrypted private key"), ("user.key", "no certificate")):
        with pytest.raises(sapwood.StorageError, match=why):
            total(f"https://{address}", certificate=home / wrong)
    with pytest.raises(sapwood.ArgumentError, match="certificate is the path"):
        total(f"https://{address}", certificate=5)
    with pytest.raises(sapwood.ArgumentError, match="certificate"):
        sapwood.open("root://localhost//x.root", certificate=home / "both.pem")
