"""API keys with scopes, stored as hashes in the service's folder.

A key is shown once, when it is made: `olr_ID_SECRET`. The folder keeps its SHA-256 only; secrets
are 256 random bits, so a slow hash would protect nothing more. Removing a key works at once,
without a restart.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
import os
import secrets
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

from olrank.errors import ConfigError

SCOPES = ("rank", "feedback", "admin")
_FILE = "keys.json"


@dataclass(frozen=True)
class Key:
    """A key as it is stored.

    Attributes:
        id: the part of the key that may be seen.
        name: what its owner calls it.
        scopes: some of rank, feedback and admin; admin may do everything.
        hash: SHA-256 of the whole key, in hex.
        made_ms: when.
    """

    id: str
    name: str
    scopes: tuple[str, ...]
    hash: str
    made_ms: int

    def allows(self, scope: str) -> bool:
        """Whether the key may be used for this."""
        return scope in self.scopes or "admin" in self.scopes


class Keys:
    """The keys of a folder, read again whenever the file changes."""

    def __init__(self, folder: Path) -> None:
        """Nothing is read yet."""
        self._path = folder / _FILE
        self._seen: tuple[int, int, int] | None = None
        self._keys: dict[str, Key] = {}

    def all(self) -> list[Key]:
        """Every key, the oldest first."""
        self._refresh()
        return sorted(self._keys.values(), key=lambda key: key.made_ms)

    def find(self, text: str) -> Key | None:
        """The stored key that this text is; None when it is none."""
        self._refresh()
        parts = text.split("_")
        key = self._keys.get(parts[1]) if len(parts) == 3 else None
        if key is None or not hmac.compare_digest(key.hash, _hash(text)):
            return None
        return key

    def add(self, name: str, scopes: Sequence[str]) -> str:
        """Make a key; returns it, for the only time."""
        for scope in scopes:
            if scope not in SCOPES:
                raise ConfigError(f'scope "{scope}": expected some of {", ".join(SCOPES)}.')
        if not scopes:
            raise ConfigError(f"a key needs a scope: some of {', '.join(SCOPES)}.")
        self._refresh()
        text = f"olr_{secrets.token_hex(4)}_{secrets.token_hex(32)}"
        key_id = text.split("_")[1]
        made_ms = time.time_ns() // 1_000_000
        self._keys[key_id] = Key(key_id, name, tuple(scopes), _hash(text), made_ms)
        self._write()
        return text

    def remove(self, key_id: str) -> None:
        """Forget a key; it stops working at once."""
        self._refresh()
        if key_id not in self._keys:
            raise ConfigError(f'no key has the id "{key_id}". `olrank keys list` shows them.')
        del self._keys[key_id]
        self._write()

    def _refresh(self) -> None:
        try:
            stat = self._path.stat()
            seen = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
        except FileNotFoundError:
            self._keys, self._seen = {}, None
            return
        if seen == self._seen:
            return
        try:
            found = json.loads(self._path.read_text("utf-8"))
            keys = [Key(**{**one, "scopes": tuple(one["scopes"])}) for one in found["keys"]]
        except (ValueError, TypeError, KeyError) as reason:
            raise ConfigError(
                f"{self._path}: cannot be read ({reason}). Delete it and make new keys."
            ) from None
        self._keys, self._seen = {key.id: key for key in keys}, seen

    def _write(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_private(
            self._path, json.dumps({"keys": [asdict(key) for key in self.all_known()]}).encode()
        )
        self._seen = None

    def all_known(self) -> list[Key]:
        """Keys in memory, the oldest first."""
        return sorted(self._keys.values(), key=lambda key: key.made_ms)


def read_secret(folder: Path) -> bytes:
    """The folder's secret for draws, made on first use; it never leaves the folder."""
    place = folder / "secret"
    if not place.exists():
        write_private(place, secrets.token_bytes(32))
    secret = place.read_bytes()
    if len(secret) != 32:
        raise ConfigError(
            f"{place}: expected 32 bytes, found {len(secret)}. Restore it from a copy."
        )
    return secret


def write_private(place: Path, content: bytes) -> None:
    """Write a file that only its owner may read: whole, or not at all."""
    beside = place.with_name(f".{place.name}.{os.getpid()}.part")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.write(descriptor, content)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    beside.replace(place)
    folder = os.open(place.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@lru_cache(maxsize=1000)
def is_loopback(host: str) -> bool:
    """Whether only this machine can reach this address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
