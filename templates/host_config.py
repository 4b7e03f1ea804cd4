#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Collect what a template build takes over from the host: apt, pip and npm settings and extra CA certificates.

With --indexes: print as JSON where this host gets its packages, for the daemon's package cache (docs/packages.md).

Theory of operation
-------------------
A build has to work wherever the host itself can install packages: behind a proxy, with a company mirror, with a
company CA. So nothing is configured twice: this program reads the host's own configuration and writes it, as plain
files, into a folder that `build-rootfs` binds into the root file system at HOST_DIR while it builds. That folder
never becomes part of the image. What does become part of it is written to separate files: `image.sources` (apt
sources without passwords) and `ca/*.crt`.

Files on the host that a setting points to (a CA bundle, a folder of wheels, a client certificate) are listed in
`binds`; they appear in the root below HOST_DIR under their own path, and the setting is rewritten to match.

Output, in --out:
  build.sources   apt sources for the build (deb822)     image.sources   the same without user names and passwords
  outside.conf    apt settings, host paths (mmdebstrap)  inside.conf     apt settings, paths as seen in the root
  auth.conf       apt credentials, if any                env             NAME=value NUL ... for programs in the root
  binds           source NUL target NUL ...              ca/*.crt        extra CA certificates, PEM

Nothing here is trusted further than the user who runs the build: it is that user's own configuration.
"""

from __future__ import annotations

import argparse
import configparser
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

HOST_DIR = "/run/pandastack/host"
DEBIAN_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"

# Where distributions keep the certificates that an administrator added (Debian, Fedora, Arch, openSUSE).
CA_DIRS = (
    "/usr/local/share/ca-certificates",
    "/etc/pki/ca-trust/source/anchors",
    "/etc/ca-certificates/trust-source/anchors",
    "/etc/pki/trust/anchors",
)

PROXY_VARIABLES = ("http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy")

# The pip options that say how to reach an index. Options that say where to install or what to log stay on the host.
PIP_OPTIONS = frozenset(
    (
        *("index-url", "extra-index-url", "find-links", "no-index", "trusted-host", "cert", "client-cert", "proxy"),
        *("timeout", "default-timeout", "retries", "constraint", "only-binary", "no-binary", "prefer-binary"),
        *("use-feature", "use-deprecated", "keyring-provider"),
    )
)

# How apt reaches its sources: proxies, certificates, retries, clock checks. Nothing about what it installs.
APT_OPTIONS = re.compile(
    r"Acquire::(?:(?:https?|ftp|socks)::|Check-Valid-Until$|Check-Date$|Retries$|Max-ValidTime|Min-ValidTime|"
    r"ForceIPv[46]$|By-Hash$|Queue-Mode$)",
    re.IGNORECASE,
)


class HostConfigError(Exception):
    """The host's configuration can't serve the build; the message says what to do."""


class Binds:
    """Host files that the build needs to see, and the path that each has inside the root."""

    def __init__(self) -> None:
        self.targets: dict[str, str] = {}

    def add(self, path: str) -> str:
        real = str(Path(path).absolute())
        return self.targets.setdefault(real, HOST_DIR + "/files" + real)

    def rewrite(self, value: str) -> str:
        """Replace each word of a setting that names an existing file of the host (a path or a file: URL)."""
        return " ".join(self._rewrite_word(word) for word in value.split())

    def _rewrite_word(self, word: str) -> str:
        prefix, path = ("file://", word[7:]) if word.startswith("file:///") else ("", word)
        if path.startswith("~/"):
            path = str(Path(path).expanduser())
        if path.startswith("/") and path != "/" and os.access(path, os.R_OK):
            return prefix + self.add(path)
        return word


# apt


def parse_stanzas(text: str) -> Iterator[dict[str, str]]:
    """Yield the stanzas of a deb822 text with lower-case field names; continuation lines are joined."""
    for block in re.split(r"\n[ \t]*\n", text):
        fields: dict[str, str] = {}
        name = ""
        for line in block.splitlines():
            if line.startswith("#") or not line.strip():
                continue
            if line[0] in " \t":
                fields[name] = fields.get(name, "") + "\n" + line.strip()
            elif ":" in line:
                name, _, value = line.partition(":")
                name = name.strip().lower()
                fields[name] = value.strip()
        if fields:
            yield fields


def run_apt(arguments: list[str]) -> str:
    if shutil.which(arguments[0]) is None:
        return ""
    result = subprocess.run(arguments, check=False, capture_output=True, text=True)
    return result.stdout if result.returncode == 0 else ""


def index_targets(*, release_info: bool) -> list[dict[str, str]]:
    options = [] if release_info else ["--no-release-info"]
    return list(parse_stanzas(run_apt(["apt-get", "indextargets", *options, "Created-By: Packages"])))


def signed_by_of(entry: str) -> str:
    """The Signed-By of a source, given apt's FILE:NUMBER for it (line of a .list, stanza of a .sources file)."""
    path, _, number = entry.rpartition(":")
    try:
        text = Path(path).read_text(encoding="utf-8", errors="replace")
        index = int(number) - 1
        if path.endswith(".sources"):
            return list(parse_stanzas(text))[index].get("signed-by", "")
        match = re.search(r"\[[^]]*signed-by=([^]\s]+)", text.splitlines()[index], re.IGNORECASE)
        return match.group(1) if match else ""
    except (OSError, ValueError, IndexError):
        return ""


def debian_sources(suite: str) -> list[tuple[str, str]]:
    """(URI, release) of the host's own sources that are Debian's archive of this suite, component main.

    apt itself parses its files, so that one-line, deb822 and disabled entries all mean what they mean to apt. Where
    the lists were fetched, the Release file says who made the archive ("Origin: Debian") and which codename hides
    behind "stable". Where they weren't, an entry counts unless it names a keyring that isn't Debian's.
    """
    wanted = (suite, f"{suite}-updates", f"{suite}-security")
    known = {(t.get("repo-uri", ""), t.get("release", "")): t for t in index_targets(release_info=True)}
    found: dict[tuple[str, str], None] = {}
    for target in index_targets(release_info=False):
        uri, release = target.get("repo-uri", ""), target.get("release", "")
        if target.get("component") != "main" or not uri.startswith(("http://", "https://")):
            continue
        info = known.get((uri, release), {})
        if info.get("origin"):
            if info["origin"] != "Debian":
                continue
        else:
            signed_by = signed_by_of(target.get("sourcesentry", ""))
            if signed_by and "debian-archive" not in signed_by:
                continue
        codename = info.get("codename", "") or release
        for name in wanted:
            if name in (codename, release):
                found[(uri, name)] = None
    return list(found)


def without_credentials(uri: str) -> str:
    parts = urlsplit(uri)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def format_sources(sources: Iterable[tuple[str, str]]) -> str:
    suites: dict[str, list[str]] = {}
    for uri, release in sources:
        suites.setdefault(uri, []).append(release)
    return "\n".join(
        f"Types: deb\nURIs: {uri}\nSuites: {' '.join(names)}\nComponents: main\nSigned-By: {DEBIAN_KEYRING}\n"
        for uri, names in suites.items()
    )


def apt_sources(suite: str, mirror: str | None, security_mirror: str | None) -> list[tuple[str, str]]:
    if mirror:
        base = mirror.rstrip("/") + "/"
        sources = [(base, suite), (base, f"{suite}-updates")]
        if security_mirror:
            sources.append((security_mirror.rstrip("/") + "/", f"{suite}-security"))
        return sources
    sources = debian_sources(suite)
    if not any(release == suite for _, release in sources):
        raise HostConfigError(
            f"this host's apt has no source for Debian '{suite}' (main): give one with --mirror URL"
            " (and --security-mirror URL for its security updates)"
        )
    return sources


def apt_settings(text: str, binds: Binds | None) -> str:
    """The lines of `apt-config dump` that say how to reach a source; with binds, host paths are rewritten."""
    lines = []
    for line in text.splitlines():
        match = re.fullmatch(r'(\S+) "(.*)";', line)
        if not match or not match[2] or not APT_OPTIONS.match(match[1]):
            continue
        value = binds.rewrite(match[2]) if binds else match[2]
        lines.append(f'{match[1]} "{value}";\n')
    return "".join(lines)


def apt_credentials() -> str:
    paths = [Path("/etc/apt/auth.conf"), *sorted(Path("/etc/apt/auth.conf.d").glob("*.conf"))]
    return "".join(p.read_text() + "\n" for p in paths if p.is_file() and os.access(p, os.R_OK))


# pip and npm


def pip_files(environ: Mapping[str, str]) -> list[Path]:
    """pip's configuration files, weakest first (pip's own order)."""
    home = Path(environ.get("HOME", "/nonexistent"))
    explicit = environ.get("PIP_CONFIG_FILE")
    if explicit == os.devnull:
        return []
    config_home = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    files = [Path(d) / "pip/pip.conf" for d in (environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":")]
    files += [Path("/etc/pip.conf"), home / ".pip/pip.conf", config_home / "pip/pip.conf"]
    return [*files, Path(explicit)] if explicit else files


def pip_environment(environ: Mapping[str, str], binds: Binds) -> dict[str, str]:
    """The host's pip settings as PIP_* variables; files first, then [install], then the environment on top."""
    settings: dict[str, str] = {}
    by_section: dict[str, dict[str, str]] = {"global": {}, "install": {}}
    for path in pip_files(environ):
        parser = configparser.RawConfigParser()
        try:
            parser.read(path, encoding="utf-8")
        except (OSError, configparser.Error, UnicodeDecodeError) as error:
            raise HostConfigError(f"{path}: pip's configuration can't be read: {error}") from error
        for section, values in by_section.items():
            if parser.has_section(section):
                values.update(parser.items(section))
    for values in by_section.values():
        settings.update({name.replace("_", "-").lower(): value for name, value in values.items()})
    for name, value in environ.items():
        if name.startswith("PIP_"):
            settings[name[4:].replace("_", "-").lower()] = value
    return {
        "PIP_" + name.replace("-", "_").upper(): binds.rewrite(value)
        for name, value in sorted(settings.items())
        if name in PIP_OPTIONS and value
    }


def npm_environment(environ: Mapping[str, str], binds: Binds) -> dict[str, str]:
    result = {
        name: binds.rewrite(value)
        for name, value in environ.items()
        if re.fullmatch(r"npm_config_(?:registry|cafile|proxy|https_proxy|noproxy|strict_ssl)", name, re.IGNORECASE)
    }
    home = environ.get("HOME", "/nonexistent")
    for variable, candidates in (
        ("NPM_CONFIG_USERCONFIG", [environ.get("NPM_CONFIG_USERCONFIG", ""), f"{home}/.npmrc"]),
        ("NPM_CONFIG_GLOBALCONFIG", ["/etc/npmrc", "/usr/etc/npmrc"]),
    ):
        path = next((c for c in candidates if c and os.access(c, os.R_OK)), None)
        if path:
            result[variable] = binds.add(path)
    return result


def npm_registry(environ: Mapping[str, str]) -> str | None:
    """The registry of the host's npm, if it has one: npm's own answer."""
    npm = shutil.which("npm", path=environ.get("PATH"))
    if not npm:
        return None
    # Elsewhere it might be a project's.
    done = subprocess.run(
        [npm, "config", "get", "registry"], cwd="/", env=environ, stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode != 0:
        raise HostConfigError("`npm config get registry` failed: correct npm's settings")
    return done.stdout.strip()


def python_index(environ: Mapping[str, str]) -> tuple[str, list[str]] | None:
    """The index of the host's pip, and where else its files are; None where nothing is set and there is no pip."""
    try:
        public = import_module("pip._internal.models.index").PyPI
    except ImportError:
        public = None
    url = pip_environment(environ, Binds()).get("PIP_INDEX_URL", public and public.simple_url)
    if not url:
        return None
    is_public = public and urlsplit(url).hostname == urlsplit(public.url).hostname
    return url, [f"https://{public.file_storage_domain}/"] if is_public else []


def index_of(url: str, *more: str) -> dict[str, object]:
    """An index as the daemon wants it: its URL in parts, and the URLs below which it has things, its own host's first."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise HostConfigError(f"{without_credentials(url)} is no URL of HTTP: correct the setting of pip, npm or apt")
    own = f"{parts.scheme}://{parts.netloc.rpartition('@')[2].lower()}/"
    path = parts.path.strip("/")
    credentials = {"user": parts.username, "password": parts.password}
    return {
        "base": f"{own}{path}/" if path else own,
        "host": parts.hostname,
        "path": f"/{path}/" if path else "/",
        "serves": [own, *more],
        **{name: unquote(value) for name, value in credentials.items() if value is not None},
    }


def indexes(environ: Mapping[str, str]) -> dict[str, object]:
    """The host's indexes, None for those that it has none of; of apt's sources those of plain HTTP."""
    python = python_index(environ)
    npm = npm_registry(environ)
    uris = {target.get("repo-uri", "") for target in index_targets(release_info=False)}
    return {
        "pypi": index_of(python[0], *python[1]) if python else None,
        "npm": index_of(npm) if npm else None,
        "apt": [index_of(uri) for uri in sorted(uris) if uri.startswith("http://")],
    }


def proxy_environment(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if name.lower() in PROXY_VARIABLES and value}


# certificates


def extra_certificates() -> Iterator[tuple[str, bytes]]:
    seen: set[bytes] = set()
    for directory in CA_DIRS:
        for path in sorted(Path(directory).rglob("*")):
            if path.suffix not in (".crt", ".pem") or not path.is_file():
                continue
            data = path.read_bytes()
            if b"-----BEGIN CERTIFICATE-----" in data and data not in seen:
                seen.add(data)
                yield re.sub(r"[^A-Za-z0-9._-]", "_", path.stem), data


def write_private(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)


def collect(suite: str, out: Path, mirror: str | None, security_mirror: str | None) -> None:
    environ = os.environ
    binds = Binds()
    sources = apt_sources(suite, mirror, security_mirror)
    if not any(release == f"{suite}-security" for _, release in sources):
        print(f"warning: no source of security updates for '{suite}': the image won't have them", file=sys.stderr)

    write_private(out / "build.sources", format_sources(sources))
    image_sources = [(without_credentials(uri), release) for uri, release in sources]
    (out / "image.sources").write_text(format_sources(image_sources))

    dump = run_apt(["apt-config", "dump"])
    outside = apt_settings(dump, None)
    inside = apt_settings(dump, binds)
    if "Acquire::Retries" not in outside:
        outside += 'Acquire::Retries "3";\n'
        inside += 'Acquire::Retries "3";\n'
    inside += f'Dir::Etc::sourcelist "{HOST_DIR}/build.sources";\nDir::Etc::sourceparts "/dev/null";\n'
    inside += 'APT::Sandbox::User "root";\nAPT::Install-Recommends "false";\nAcquire::Languages "none";\n'
    credentials = apt_credentials()
    if credentials:
        write_private(out / "auth.conf", credentials)
        outside += f'Dir::Etc::netrc "{out}/auth.conf";\n'
        inside += f'Dir::Etc::netrc "{HOST_DIR}/auth.conf";\n'
    (out / "outside.conf").write_text(outside)
    (out / "inside.conf").write_text(inside)

    environment = proxy_environment(environ)
    environment.update(pip_environment(environ, binds))
    environment.update(npm_environment(environ, binds))
    netrc = environ.get("NETRC") or environ.get("HOME", "/nonexistent") + "/.netrc"
    if os.access(netrc, os.R_OK):
        environment["NETRC"] = binds.add(netrc)
    write_private(out / "env", "".join(f"{name}={value}\0" for name, value in environment.items()))
    (out / "binds").write_text("".join(f"{source}\0{target}\0" for source, target in binds.targets.items()))

    (out / "ca").mkdir()
    for number, (name, data) in enumerate(extra_certificates()):
        (out / "ca" / f"host-{number:02d}-{name}.crt").write_bytes(data)


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the host's package settings for a template build.")
    parser.add_argument("--indexes", action="store_true", help="print where this host gets its packages, and no more")
    parser.add_argument("--suite")
    parser.add_argument("--out", type=Path, help="an existing, empty folder")
    parser.add_argument("--mirror")
    parser.add_argument("--security-mirror")
    arguments = parser.parse_args()
    if not arguments.indexes and not (arguments.suite and arguments.out):
        parser.error("--suite and --out, or --indexes")
    try:
        if arguments.indexes:
            print(json.dumps(indexes(os.environ)))
            return 0
        collect(arguments.suite, arguments.out.resolve(), arguments.mirror, arguments.security_mirror)
    except (HostConfigError, OSError) as error:
        print(f"host_config: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
