# SPDX-License-Identifier: Apache-2.0
"""Exported snapshots (src/core/state_file.h): read, and forged."""

from __future__ import annotations

import hashlib
import json
import struct
import subprocess
from typing import Any


def zstd(*args: str, data: bytes) -> bytes:
    """What the program makes of it."""
    return subprocess.run(["zstd", "-q", "-c", *args], input=data, stdout=subprocess.PIPE, check=True).stdout


def manifest_of(file: bytes) -> dict[str, Any]:
    """What an exported one says of itself."""
    plain = zstd("-d", data=file)
    (length,) = struct.unpack("<I", plain[8:12])
    manifest: dict[str, Any] = json.loads(plain[12 : 12 + length])
    return manifest


def forge(manifest: dict[str, Any], files: dict[str, int] | None = None, **changes: Any) -> bytes:
    """A file, whole to its last byte, of nothing but zeros, with other members in its manifest."""
    forged = {**manifest, **changes, "files": {**manifest["files"], **(files or {})}}
    text = json.dumps(forged).encode()
    body = b"PSSNAP01" + struct.pack("<I", len(text)) + text
    end = bytes([255, 0, 0, 0]) + struct.pack("<IQ", 32, 0) + hashlib.blake2b(body, digest_size=32).digest()
    return zstd(data=body + end)
