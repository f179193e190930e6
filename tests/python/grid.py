"""Certificates as those of the grid: an authority, a host, a user and the user's proxy."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path


def run(*command: str, home: Path, given: str | None = None) -> str:
    done = subprocess.run(command, cwd=home, input=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def certificate(home: Path, name: str, subject: str, extensions: str, issuer: str = "") -> None:
    """Make a key and a certificate; without an issuer it signs itself."""
    request = ("openssl", "req", "-new", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.key")
    run(*request, "-out", f"{name}.csr", "-subj", subject, home=home)
    (home / f"{name}.ext").write_text(extensions)
    by = ("-CA", f"{issuer}.pem", "-CAkey", f"{issuer}.key", "-CAcreateserial") if issuer else ("-signkey", "ca.key")
    sign = ("openssl", "x509", "-req", "-in", f"{name}.csr", "-out", f"{name}.pem", "-days", "2", "-sha256")
    run(*sign, "-extfile", f"{name}.ext", *by, home=home)
    (home / f"{name}.key").chmod(0o600)


def certificates(home: Path) -> None:
    """Make an authority, a host, a user and the user's proxy."""
    usage = "keyUsage=critical,digitalSignature,keyEncipherment\n"
    certificate(
        home, "ca", "/DC=test/CN=Authority", "basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign\n"
    )
    certificate(home, "host", "/DC=test/CN=localhost", usage + "subjectAltName=DNS:localhost\n", "ca")
    certificate(home, "user", "/DC=test/CN=Some User", usage, "ca")
    rights = "proxyCertInfo=critical,language:id-ppl-inheritAll\n"
    certificate(home, "proxy", "/DC=test/CN=Some User/CN=1", usage + rights, "user")
    (home / "certificates").mkdir()
    for kind in ("-subject_hash", "-subject_hash_old"):
        name = run("openssl", "x509", "-noout", kind, "-in", "ca.pem", home=home).strip()
        shutil.copy(home / "ca.pem", home / "certificates" / f"{name}.0")
    (home / "x509up").write_text("".join((home / name).read_text() for name in ("proxy.pem", "proxy.key", "user.pem")))
    (home / "x509up").chmod(0o600)


def voms_proxy(home: Path, organisation: str) -> Path:
    """Make a proxy of the user of `certificates` with the attributes of a virtual organisation, which the host signs.

    A server trusts them if it finds the folder `vomsdir`.
    """
    folder = home / "vomsdir" / organisation
    folder.mkdir(parents=True)
    (folder / "localhost.lsc").write_text("/DC=test/CN=localhost\n/DC=test/CN=Authority\n")
    run(
        "voms-proxy-fake", "-rfc", "-quiet", "-hours", "12", "-cert", "user.pem", "-key", "user.key",
        "-certdir", "certificates", "-hostcert", "host.pem", "-hostkey", "host.key", "-uri", "localhost:15000",
        "-voms", organisation, "-fqan", f"/{organisation}/Role=NULL/Capability=NULL", "-out", "x509voms", home=home,
    )  # fmt: skip
    return home / "x509voms"
