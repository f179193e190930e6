"""Keys for S3, where the AWS tools have them: the environment, profile files, a web identity; X.509 certificates."""

from __future__ import annotations

import configparser
import os
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from sapwood.errors import ArgumentError, StorageError
from sapwood.threads import within


class Keys(NamedTuple):
    """The keys that sign requests to S3."""

    key: str
    secret: str
    token: str | None


_LARGEST_ANSWER = 1 << 16
_PATIENCE = 30.0
"""Seconds for which the token service is waited for."""
_EARLY = 300
"""Seconds before their expiry at which keys are requested again."""
_lent: dict[tuple[str, str, str], tuple[float, Keys]] = {}
"""The temporary keys from the token service, by role, token file and service, and when they expire."""


def find_keys(options: Mapping[str, Any]) -> Keys | None:
    """Return the keys of the options, or of the environment, a web identity, or a profile; None if there are none.

    Raises
    ------
    StorageError
        The token service refuses the web identity, or cannot be reached.
    """
    key, secret, token = options.get("key"), options.get("secret"), options.get("token")
    if key and secret:
        return Keys(key, secret, token)
    variables = os.environ
    key, secret = variables.get("AWS_ACCESS_KEY_ID"), variables.get("AWS_SECRET_ACCESS_KEY")
    if key and secret:
        return Keys(key, secret, variables.get("AWS_SESSION_TOKEN"))
    if (role := variables.get("AWS_ROLE_ARN")) and (file := variables.get("AWS_WEB_IDENTITY_TOKEN_FILE")):
        return _of_identity(role, file)
    profile = _profile()
    key, secret = profile.get("aws_access_key_id"), profile.get("aws_secret_access_key")
    if key and secret:
        return Keys(key, secret, profile.get("aws_session_token"))
    if (role := profile.get("role_arn")) and (file := profile.get("web_identity_token_file")):
        return _of_identity(role, file)
    return None


def find_region() -> str:
    """Return the region of the environment, or of the profile."""
    variables = os.environ
    found = variables.get("AWS_REGION") or variables.get("AWS_DEFAULT_REGION") or _profile().get("region")
    return found or "us-east-1"


def has_profile() -> bool:
    """Return whether a profile is named or a credentials file exists. Other packages handle profiles without keys."""
    return bool(os.environ.get("AWS_PROFILE")) or _file("AWS_SHARED_CREDENTIALS_FILE", "credentials").exists()


def _at_home(path: str | os.PathLike[str]) -> Path:
    """Return a path with the home folder for ``~``; without a home folder, as it is."""
    return Path(os.path.expanduser(path))  # noqa: PTH111 - that of `Path` raises RuntimeError


def _file(variable: str, name: str) -> Path:
    return _at_home(os.environ.get(variable) or f"~/.aws/{name}")


def _profile() -> dict[str, str]:
    """Return the settings of the chosen profile. Those in the credentials file take precedence."""
    name = os.environ.get("AWS_PROFILE") or "default"
    found: dict[str, str] = {}
    section = name if name == "default" else f"profile {name}"
    for file, title in (
        (_file("AWS_CONFIG_FILE", "config"), section),
        (_file("AWS_SHARED_CREDENTIALS_FILE", "credentials"), name),
    ):
        parser = configparser.RawConfigParser(strict=False)
        try:
            parser.read(file, encoding="utf-8")
            found |= dict(parser.items(title))
        except configparser.NoSectionError:
            continue
        except (configparser.Error, UnicodeDecodeError, OSError) as error:
            raise StorageError(f"cannot read the profile {name!r} in {file}: {error}") from None
    return found


def _of_identity(role: str, file: str) -> Keys:
    """Ask the token service for keys of a role, by the token in a file."""
    service = os.environ.get("AWS_ENDPOINT_URL_STS") or f"https://sts.{find_region()}.amazonaws.com"
    known = _lent.get((role, file, service))
    if known is not None and time.time() < known[0]:
        return known[1]
    from http.client import HTTPException
    from urllib.parse import urlencode

    try:
        identity = _at_home(file).read_text(encoding="utf-8").strip()
        asked = {
            "Action": "AssumeRoleWithWebIdentity",
            "Version": "2011-06-15",
            "RoleArn": role,
            "RoleSessionName": os.environ.get("AWS_ROLE_SESSION_NAME") or f"sapwood-{os.getpid()}",
            "WebIdentityToken": identity,
        }
        url, form = f"{service.rstrip('/')}/", urlencode(asked).encode()
        refusal, text = within(_PATIENCE, lambda: _answer_of(url, form))
    except (OSError, ValueError, HTTPException) as error:
        raise StorageError(f"cannot get keys for role {role} with the token in {file}: {error}") from None
    if refusal:
        why = _part("Message", text) or refusal
        # The token is a secret.
        why = why.replace(identity, "***") if identity else why
        raise StorageError(f"{service} returned no keys for role {role}: {why}")
    key, secret, token = (_part(name, text) for name in ("AccessKeyId", "SecretAccessKey", "SessionToken"))
    if not key or not secret:
        raise StorageError(f"{service} returned no keys for role {role}")
    keys = Keys(key, secret, token)
    _lent[role, file, service] = _until(_part("Expiration", text)), keys
    return keys


def _answer_of(url: str, form: bytes) -> tuple[str, str]:
    """Send a form; return why it was refused, or an empty string, and the text of the answer."""
    from http.client import HTTPException
    from urllib.error import HTTPError
    from urllib.request import urlopen

    try:
        with urlopen(url, form, timeout=_PATIENCE) as answer:
            return "", answer.read(_LARGEST_ANSWER).decode(errors="replace")
    except HTTPError as error:
        text = ""
        with suppress(OSError, HTTPException):
            text = error.read(_LARGEST_ANSWER).decode(errors="replace")
        return str(error), text


def _part(name: str, text: str) -> str | None:
    found = re.search(f"<{name}>([^<]*)</{name}>", text)
    return found[1] if found else None


def _until(expiration: str | None) -> float:
    from datetime import datetime

    try:
        return datetime.fromisoformat((expiration or "").replace("Z", "+00:00")).timestamp() - _EARLY
    except ValueError:
        return time.time()


def find_certificate(options: Mapping[str, Any], scheme: str) -> str | None:
    """Return the file with the user's certificate and key (PEM) for a web server that requests one.

    It is the option `certificate` or else that of X509_USER_PROXY. For ``davs://`` it is also the proxy in the usual
    place, if there is one.

    Raises
    ------
    ArgumentError
        The option is not a path.
    """
    given = options.get("certificate")
    if given is not None:
        if not isinstance(given, (str, os.PathLike)):
            raise ArgumentError(f"certificate is the path of a PEM file with a certificate and its key, not {given!r}")
        return str(_at_home(given))
    if proxy := os.environ.get("X509_USER_PROXY"):
        # A missing proxy is an error only if the user requests it with the scheme.
        return proxy if scheme == "davs" or Path(proxy).exists() else None
    usual = Path(f"/tmp/x509up_u{os.geteuid()}")
    return str(usual) if scheme == "davs" and usual.exists() else None
