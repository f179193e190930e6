"""XRootD servers that demand X.509 proxies or Kerberos: read through the XRootD project's own client."""

from __future__ import annotations

import io
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
import xrootd_servers
from grid import certificates, run, voms_proxy
from servers import free_port

import sapwood
from sapwood.storage import client

pytest.importorskip("XRootD", reason="needs xrootd (pip install sapwood[xrootd])")

GSI = """
xrootd.seclib libXrdSec.so
sec.protocol gsi -certdir:{home}/grid/certificates -cert:{home}/grid/host.pem -key:{home}/grid/host.key -gmapopt:nomap \
-crl:0 -vomsat:0
sec.level all pedantic force
sec.protbind * only gsi
"""
VOMS = """
setenv X509_VOMS_DIR = {home}/grid/vomsdir
setenv X509_CERT_DIR = {home}/grid/certificates
ofs.authorize 1
acc.authdb {home}/grid/rights
"""
KERBEROS = """
xrootd.seclib libXrdSec.so
sec.protocol krb5 {home}/grid/keytab xrootd/localhost@SAPWOOD.TEST
sec.protbind * only krb5
"""


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("logins") / "events.root"
    generator = np.random.default_rng(1)
    with sapwood.recreate(path) as file:
        tree = file.mktree("Events", {f"x{i}": "f8" for i in range(8)}, auto_flush=5000)
        tree.extend({f"x{i}": generator.normal(size=40_000) for i in range(8)})
    return path


@pytest.fixture(scope="module")
def gsi(events: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, str]]]:
    """Start a server that demands a proxy; return its URL and the variables of a user who has one."""
    mine = tmp_path_factory.mktemp("grid")
    certificates(mine)
    with xrootd_servers.folder() as home:
        shutil.copytree(mine, home / "grid")
        with xrootd_servers.single({"events.root": events}, GSI.format(home=home), home=home) as server:
            here = {"X509_CERT_DIR": str(mine / "certificates"), "X509_USER_PROXY": str(mine / "x509up")}
            yield server.url("events.root"), here


@pytest.fixture(scope="module")
def voms(events: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, str]]]:
    """Start a server for members of a virtual organisation; return its URL and the variables of a member."""
    libraries = [*os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep), "/usr/lib/x86_64-linux-gnu", "/usr/lib64"]
    plugin = any(list(Path(folder).glob("libXrdVoms*.so")) for folder in libraries if folder)
    if not plugin or shutil.which("voms-proxy-fake") is None:
        pytest.skip("VOMS is not installed (apt-get install voms-clients xrootd-voms-plugins)")
    mine = tmp_path_factory.mktemp("grid")
    certificates(mine)
    proxy = voms_proxy(mine, "testvo")
    (mine / "rights").write_text("o testvo / rl\n")
    demand = GSI.replace("-vomsat:0", "-vomsat:require -vomsfun:default") + VOMS
    with xrootd_servers.folder() as home:
        shutil.copytree(mine, home / "grid")
        with xrootd_servers.single({"events.root": events}, demand.format(home=home), home=home) as server:
            here = {"X509_CERT_DIR": str(mine / "certificates"), "X509_USER_PROXY": str(proxy)}
            yield server.url("events.root"), here


def test_a_proxy_without_the_organisation_is_refused(
    voms: tuple[str, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, here = voms
    monkeypatch.setenv("X509_CERT_DIR", here["X509_CERT_DIR"])
    monkeypatch.setenv("X509_USER_PROXY", str(Path(here["X509_USER_PROXY"]).parent / "x509up"))
    with pytest.raises(sapwood.StorageError):
        sapwood.open(url)


def kerberos_realm(home: Path) -> tuple[dict[str, str], subprocess.Popen[bytes]]:
    """Start a key distribution centre with a user, `alice`, and the keys of a server."""
    port = free_port()
    (home / "krb5.conf").write_text(
        "[libdefaults]\ndefault_realm = SAPWOOD.TEST\ndns_lookup_kdc = false\ndns_lookup_realm = false\n"
        "dns_canonicalize_hostname = false\nrdns = false\nudp_preference_limit = 1\n"
        f"[realms]\nSAPWOOD.TEST = {{\n kdc = 127.0.0.1:{port}\n}}\n"
    )
    (home / "kdc.conf").write_text(
        f"[kdcdefaults]\nkdc_ports = {port}\nkdc_tcp_ports = {port}\n[realms]\nSAPWOOD.TEST = {{\n"
        f" database_name = {home}/principal\n key_stash_file = {home}/stash\n acl_file = {home}/acl\n}}\n"
    )
    here = {"KRB5_CONFIG": f"{home}/krb5.conf", "KRB5_KDC_PROFILE": f"{home}/kdc.conf"}
    os.environ.update(here)
    run(xrootd_servers.program("kdb5_util"), "-P", "master", "create", "-s", "-r", "SAPWOOD.TEST", home=home)
    for query in (
        "addprinc -pw secret alice", "addprinc -randkey xrootd/localhost", f"ktadd -k {home}/keytab xrootd/localhost",
    ):  # fmt: skip
        run(xrootd_servers.program("kadmin.local"), "-q", query, home=home)
    centre = subprocess.Popen([xrootd_servers.program("krb5kdc"), "-n"], cwd=home, stdout=subprocess.DEVNULL)
    return here, centre


@pytest.fixture(scope="module")
def kerberos(events: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Start a server that demands a ticket; return its URL and the variables of a user who has one."""
    for name in ("kdb5_util", "kadmin.local", "krb5kdc", "kinit"):
        if shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin") is None:
            pytest.skip("Kerberos is not installed (apt-get install krb5-kdc krb5-admin-server krb5-user)")
    before = dict(os.environ)
    # The server, which is another user, reads the configuration.
    with xrootd_servers.folder() as mine, xrootd_servers.folder() as home:
        here, centre = kerberos_realm(mine)
        try:
            (home / "grid").mkdir()
            shutil.copy(mine / "keytab", home / "grid" / "keytab")
            with xrootd_servers.single({"events.root": events}, KERBEROS.format(home=home), home=home) as server:
                here["KRB5CCNAME"] = os.environ["KRB5CCNAME"] = f"FILE:{mine}/ticket"
                end = time.monotonic() + 20
                while subprocess.run(
                    ["kinit", "alice"], input=b"secret\n", capture_output=True, check=False
                ).returncode:
                    assert time.monotonic() < end, "the centre does not answer"
                    time.sleep(0.1)
                yield server.url("events.root"), here
        finally:
            os.environ.clear()
            os.environ.update(before)
            centre.kill()
            centre.wait()


@pytest.fixture(params=["gsi", "voms", "kerberos"])
def demanded(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    url, here = request.getfixturevalue(request.param)
    for name, value in here.items():
        monkeypatch.setenv(name, value)
    return url


def sums(url: str) -> list[float]:
    with sapwood.open(url + ":Events") as tree:
        return [float(np.sum(one)) for one in tree.arrays(library="np").values()]


def test_read_what_a_server_with_a_login_has(demanded: str, events: Path) -> None:
    with sapwood.open(demanded) as file:
        found = file["Events"].arrays(["x0", "x5"], library="np")
        # The requests are those of sapwood: a few with many ranges.
        assert file.counters()["read_calls"] < 8
        assert file.ledger() == []
    expected = sapwood.open(events)["Events"].arrays(["x0", "x5"], library="np")
    assert all(np.array_equal(found[name], expected[name]) for name in expected)
    steps = sapwood.iterate(demanded + ":Events", ["x1"], step_size=5000, library="np")
    assert sum(float(np.sum(step["x1"])) for step in steps) == pytest.approx(sums(str(events))[1])


def test_list_folders_behind_a_login(demanded: str) -> None:
    assert len(sapwood.concatenate(demanded.replace("events", "ev*") + ":Events", ["x0"])) == 40_000
    with pytest.raises(sapwood.MissingFileError):
        sapwood.open(demanded.replace("events", "nothing"))


def test_read_in_other_processes(demanded: str, events: Path) -> None:
    expected = sums(str(events))
    for method in ("fork", "spawn"):
        with sapwood.open(demanded) as file, ProcessPoolExecutor(2, mp_context=get_context(method)) as pool:
            file["Events"].keys()
            assert list(pool.map(sums, [demanded] * 2)) == [expected] * 2


def test_go_on_after_the_client_has_ended(demanded: str, events: Path) -> None:
    with sapwood.open(demanded) as file:
        tree = file["Events"]
        tree.arrays(["x0"], library="np", entry_stop=10)
        for child in client._children.values():
            os.kill(child.pid, signal.SIGKILL)
        found = tree.arrays(["x3"], library="np")["x3"]
    assert np.array_equal(found, sapwood.open(events)["Events"]["x3"].array(library="np"))


def test_say_what_is_missing(demanded: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("X509_USER_PROXY", "KRB5CCNAME"):
        monkeypatch.setenv(name, "/nowhere")
    monkeypatch.setattr("sapwood.storage.sources._BY_CLIENT", set())
    with pytest.raises(sapwood.StorageError, match=r"(?s)login refused: (gsi|krb5).*client of XRootD.*X509_USER_PROXY"):
        sapwood.open(demanded)
    monkeypatch.setattr(client, "is_installed", lambda: False)
    with pytest.raises(sapwood.StorageError, match=r"sapwood\[xrootd\]"):
        sapwood.open(demanded)


def test_end_with_the_program(gsi: tuple[str, dict[str, str]]) -> None:
    url, here = gsi
    code = f"""
import sapwood
from sapwood.storage import client
file = sapwood.open({url!r})
print([child.pid for child in client._children.values()][0])
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**os.environ, **here},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    with pytest.raises(ProcessLookupError):
        os.kill(int(done.stdout), 0)


class Silent:
    """A process with the client that never replies."""

    pid = 0

    def __init__(self, *_: object, **__: object) -> None:
        reading, self.writing = os.pipe()
        self.stdin = io.BytesIO()
        self.stdout = os.fdopen(reading, "rb")


def test_files_closed_by_the_garbage_collector_wait_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The collector may run while its thread sends another request."""
    monkeypatch.setattr(client.subprocess, "Popen", Silent)
    child = client._Child()
    monkeypatch.setattr(client, "_children", {("silent",): child})

    def collect() -> None:
        with child._lock:
            client._close(child, 3)

    thread = threading.Thread(target=collect, daemon=True)
    thread.start()
    thread.join(0.9)  # a reply would be waited for longer
    waits = thread.is_alive()
    os.close(child._process.writing)
    assert not waits
    assert b'"close"' in child._process.stdin.getvalue()
