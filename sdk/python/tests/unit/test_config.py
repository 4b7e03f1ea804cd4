# SPDX-License-Identifier: Apache-2.0
"""Where the daemon is and with which key."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pandastack import AuthError, Client, ConfigError, PandastackError
from pandastack._config import Config, load_config


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("PANDASTACK_API", "PANDASTACK_API_KEY", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def write(folder: Path, content: object) -> Path:
    path = folder / "pandastack" / "config.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_the_file_of_the_daemon(home: Path) -> None:
    path = write(home / ".config", {"api_url": "http://127.0.0.1:9000", "api_key": "pds_1", "token": "pds_1"})
    assert load_config() == Config("http://127.0.0.1:9000", "pds_1", str(path))


@pytest.mark.parametrize("names", [("api", "token"), ("apiUrl", "apiKey")])
def test_other_names(home: Path, names: tuple[str, str]) -> None:
    write(home / ".config", dict(zip(names, ("http://there:1", "k"))))
    assert load_config().api == "http://there:1"
    assert load_config().key == "k"


def test_the_environment_comes_first(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(home / ".config", {"api_url": "http://file:1", "api_key": "file"})
    monkeypatch.setenv("PANDASTACK_API", "https://env/")
    assert load_config().api == "https://env"
    assert load_config().key == "file"
    monkeypatch.setenv("PANDASTACK_API_KEY", "env")
    assert load_config() == Config("https://env", "env", "PANDASTACK_API_KEY")
    assert load_config("http://arg:1/v1", "arg") == Config("http://arg:1", "arg", "the argument api_key")


def test_xdg(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "xdg"))
    write(home / "xdg", {"api_key": "k"})
    assert load_config().api == "http://127.0.0.1:8080"


def test_no_key_says_where_one_comes_from(home: Path) -> None:
    with pytest.raises(AuthError, match=r"PANDASTACK_API_KEY.*pandastack serve.*config\.json"):
        Client()
    write(home / ".config", {"api_key": ""})
    with pytest.raises(AuthError):
        Client()


@pytest.mark.parametrize("content", ["{", "[]", "\udc80".encode("utf-8", "surrogateescape").decode("latin-1"), "1"])
def test_a_broken_file_is_said(home: Path, content: str) -> None:
    path = write(home / ".config", content)
    with pytest.raises(ConfigError, match=str(path)):
        load_config()
    assert load_config("http://x:1", "k").key == "k", "it is not read where it is not needed"


@pytest.mark.parametrize("api", ["127.0.0.1:8080", "ftp://x", "http://", "http://x:port", "http://[::1", "x"])
def test_what_is_no_address(api: str) -> None:
    with pytest.raises(PandastackError, match=r"PANDASTACK_API must be like http://127\.0\.0\.1:8080"):
        Client(api, "k")


def test_no_proxy_to_this_machine() -> None:
    assert load_config("http://127.0.0.1:1", "k").is_local
    assert load_config("http://[::1]:1", "k").is_local
    assert not load_config("http://127.example.com", "k").is_local
