#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Last step of the code-interpreter template, run as root inside its root file system.
set -euo pipefail

site=$(python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')

# The libraries' own tests are a tenth of the environment, and nobody runs them here.
for library in numpy pandas scipy sklearn sympy; do
	find "$site/$library" -type d -name tests -prune -exec rm -rf {} +
done

# Where Kaleido looks for a browser when no kernel's pictures service draws for it: in scripts.
ln -s /usr/lib/chromium/chromium-headless-shell /usr/local/bin/chromium

# fontconfig compares the nanoseconds of a folder's time, and the image keeps whole seconds.
find /usr/share/fonts -type d -exec touch -d "@$(date +%s)" {} +
fc-cache -f

# Fill matplotlib's list of fonts, and prove that the fonts, which the kernel runtime falls back to glyph by glyph, draw
# these scripts without a warning.
python -W error "$PANDASTACK_DEFINITION/check_fonts.py"
