# SPDX-License-Identifier: Apache-2.0
"""The rules by which a build takes over the host's package settings."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

import host_config  # a program beside us, not an installed package
from host_config import Binds, HostConfigError


def target(uri: str, release: str, **fields: str) -> dict[str, str]:
    return {"repo-uri": uri, "release": release, "component": "main", **fields}


def use_targets(
    monkeypatch: pytest.MonkeyPatch, plain: list[dict[str, str]], with_info: list[dict[str, str]] | None = None
) -> None:
    def index_targets(*, release_info: bool) -> list[dict[str, str]]:
        return (with_info or []) if release_info else plain

    monkeypatch.setattr(host_config, "index_targets", index_targets)


def test_sources_of_the_wanted_suite_only(monkeypatch: pytest.MonkeyPatch) -> None:
    mirror = "http://mirror.test/debian/"
    use_targets(
        monkeypatch,
        [
            target(mirror, "bookworm"),
            target(mirror, "bookworm"),
            target(mirror, "bookworm-updates"),
            target(mirror, "bookworm-backports"),
            target(mirror, "trixie"),
            target(mirror, "bookworm", component="contrib"),
            target("file:/srv/debian/", "bookworm"),
        ],
    )
    assert host_config.debian_sources("bookworm") == [(mirror, "bookworm"), (mirror, "bookworm-updates")]


def test_stable_is_known_by_its_codename_once_the_lists_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = [target("http://mirror.test/debian/", "stable")]
    use_targets(monkeypatch, plain)
    assert host_config.debian_sources("bookworm") == []
    use_targets(monkeypatch, plain, [{**plain[0], "origin": "Debian", "codename": "bookworm"}])
    assert host_config.debian_sources("bookworm") == [("http://mirror.test/debian/", "bookworm")]


def test_archives_of_others_are_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    one_line = tmp_path / "other.list"
    one_line.write_text("# other\ndeb [signed-by=/etc/apt/keyrings/other.gpg] http://a.test/ bookworm main\n")
    deb822 = tmp_path / "other.sources"
    deb822.write_text("Types: deb\nURIs: http://b.test/\n\n# two\nTypes: deb\nSigned-By:\n -----BEGIN PGP\n x\n")
    debian = tmp_path / "debian.sources"
    debian.write_text("Types: deb\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n")
    plain = [
        target("http://a.test/", "bookworm", sourcesentry=f"{one_line}:2"),
        target("http://b.test/", "bookworm", sourcesentry=f"{deb822}:2"),
        target("http://c.test/", "bookworm", sourcesentry=f"{debian}:1"),
        target("http://d.test/", "bookworm", sourcesentry=f"{debian}:1"),
    ]
    use_targets(monkeypatch, plain, [{**plain[3], "origin": "Docker"}])
    assert host_config.debian_sources("bookworm") == [("http://c.test/", "bookworm")]


def test_no_source_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    use_targets(monkeypatch, [target("http://mirror.test/ubuntu/", "noble")])
    with pytest.raises(HostConfigError, match="--mirror URL"):
        host_config.apt_sources("bookworm", None, None)


def test_mirror_replaces_the_hosts_sources() -> None:
    assert host_config.apt_sources("bookworm", "http://m.test/debian", "http://m.test/security/") == [
        ("http://m.test/debian/", "bookworm"),
        ("http://m.test/debian/", "bookworm-updates"),
        ("http://m.test/security/", "bookworm-security"),
    ]


def test_passwords_stay_out_of_the_image() -> None:
    assert host_config.without_credentials("https://me:secret@m.test:8443/debian/") == "https://m.test:8443/debian/"
    assert host_config.without_credentials("http://m.test/debian/") == "http://m.test/debian/"


def test_apt_settings_are_those_about_transport(tmp_path: Path) -> None:
    bundle = tmp_path / "ca.pem"
    bundle.touch()
    dump = (
        'APT::Architecture "amd64";\nAcquire "";\nAcquire::http "";\nAcquire::http::Proxy "http://proxy.test:3128/";\n'
        f'Acquire::https::CaInfo "{bundle}";\nAcquire::Check-Date "false";\nAcquire::GzipIndexes "true";\n'
        'DPkg::Post-Invoke:: "rm -f /x || true";\n'
    )
    outside = f'Acquire::http::Proxy "http://proxy.test:3128/";\nAcquire::https::CaInfo "{bundle}";\n'
    outside += 'Acquire::Check-Date "false";\n'
    assert host_config.apt_settings(dump, None) == outside
    binds = Binds()
    inside = host_config.apt_settings(dump, binds)
    assert f'Acquire::https::CaInfo "{host_config.HOST_DIR}/files{bundle}";\n' in inside
    assert binds.targets == {str(bundle): f"{host_config.HOST_DIR}/files{bundle}"}


def test_pip_environment_beats_install_section_beats_global(tmp_path: Path) -> None:
    config = tmp_path / ".config/pip/pip.conf"
    config.parent.mkdir(parents=True)
    config.write_text(
        "[global]\nindex-url = http://global.test/simple\ntimeout = 5\nretries = 1\ntarget = /somewhere\n"
        "[install]\ntimeout = 6\nextra_index_url =\n    http://x.test\n    http://y.test\n[list]\nformat = json\n"
    )
    environ = {"HOME": str(tmp_path), "PIP_RETRIES": "9", "PIP_LOG": "/tmp/log", "XDG_CONFIG_DIRS": str(tmp_path)}
    settings = host_config.pip_environment(environ, Binds())
    settings.pop("PIP_CERT", None)
    assert settings["PIP_INDEX_URL"] == "http://global.test/simple"
    assert settings["PIP_TIMEOUT"] == "6"
    assert settings["PIP_RETRIES"] == "9"
    assert settings["PIP_EXTRA_INDEX_URL"] == "http://x.test http://y.test"
    assert not {"PIP_TARGET", "PIP_LOG", "PIP_FORMAT"} & settings.keys()


def test_pip_paths_are_bound_and_rewritten(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    binds = Binds()
    environ = {"PIP_CONFIG_FILE": "/dev/null", "PIP_FIND_LINKS": f"{wheels} file://{wheels} /no/such http://z.test"}
    inside = host_config.HOST_DIR + "/files" + str(wheels)
    assert host_config.pip_environment(environ, binds) == {
        "PIP_FIND_LINKS": f"{inside} file://{inside} /no/such http://z.test"
    }
    assert binds.targets == {str(wheels): inside}


def test_broken_pip_configuration_is_named(tmp_path: Path) -> None:
    config = tmp_path / "pip.conf"
    config.write_text("not an ini file\n")
    with pytest.raises(HostConfigError, match=r"pip\.conf: pip's configuration can't be read"):
        host_config.pip_environment({"PIP_CONFIG_FILE": str(config)}, Binds())


def test_extra_certificates_once_each_and_no_other_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pem = b"-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n"
    (tmp_path / "sub dir").mkdir()
    (tmp_path / "company ca.crt").write_bytes(pem)
    (tmp_path / "sub dir/again.crt").write_bytes(pem)
    (tmp_path / "key.pem").write_bytes(b"-----BEGIN PRIVATE KEY-----\n")
    (tmp_path / "README").write_bytes(pem)
    monkeypatch.setattr(host_config, "CA_DIRS", (str(tmp_path), "/no/such/folder"))
    assert list(host_config.extra_certificates()) == [("company_ca", pem)]


def test_collect_writes_all_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(host_config, "CA_DIRS", ())
    monkeypatch.setattr(host_config, "apt_credentials", lambda: "machine m.test login me password secret\n")
    host_config.collect("bookworm", tmp_path, "http://me:secret@m.test/debian", None)
    assert "secret" in (tmp_path / "build.sources").read_text()
    assert "secret" not in (tmp_path / "image.sources").read_text()
    for name in ("build.sources", "auth.conf", "env"):
        assert (tmp_path / name).stat().st_mode & 0o077 == 0, name
    assert f'Dir::Etc::netrc "{tmp_path}/auth.conf";' in (tmp_path / "outside.conf").read_text()
    assert (tmp_path / "ca").is_dir()


def test_an_index_in_parts() -> None:
    assert host_config.index_of("https://me:a%40b@Index.test:8443/root/simple", "https://files.test/") == {
        "base": "https://index.test:8443/root/simple/",
        "host": "index.test",
        "path": "/root/simple/",
        "serves": ["https://index.test:8443/", "https://files.test/"],
        "user": "me",
        "password": "a@b",
    }
    assert host_config.index_of("http://registry.test")["base"] == "http://registry.test/"
    for wrong in ("file:///srv/simple", "index.test/simple", "https:///simple"):
        with pytest.raises(HostConfigError, match="no URL of HTTP"):
            host_config.index_of(wrong)


def test_indexes_are_those_of_the_host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use_targets(
        monkeypatch, [target("http://b.test/debian/", "x"), target("https://c.test/debian/", "x"), target("file:/d/", "x")]
    )
    npm = tmp_path / "npm"
    npm.write_text('#!/bin/sh\n[ "$*" = "config get registry" ] && echo "${REGISTRY:?}"\n')
    npm.chmod(0o755)
    environ = {"HOME": str(tmp_path), "PIP_CONFIG_FILE": "/dev/null", "PATH": f"{tmp_path}:/bin"}
    found = host_config.indexes({**environ, "PIP_INDEX_URL": "https://a.test/simple", "REGISTRY": "https://npm.test"})
    assert found["pypi"]["serves"] == ["https://a.test/"]
    assert found["npm"]["base"] == "https://npm.test/"
    assert [source["base"] for source in found["apt"]] == ["http://b.test/debian/"]
    with pytest.raises(HostConfigError, match="npm"):
        host_config.indexes(environ)


def test_indexes_of_a_host_without_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What pip says; nothing of what is not there."""
    use_targets(monkeypatch, [])
    environ = {"HOME": str(tmp_path), "PIP_CONFIG_FILE": "/dev/null", "PATH": str(tmp_path)}
    public = host_config.import_module("pip._internal.models.index").PyPI
    found = host_config.indexes(environ)
    assert found["pypi"]["base"] == f"{public.simple_url}/"
    assert found["pypi"]["serves"] == [public.url, f"https://{public.file_storage_domain}/"]
    assert found["npm"] is None
    monkeypatch.setitem(sys.modules, "pip._internal.models.index", None)
    assert host_config.indexes(environ)["pypi"] is None
