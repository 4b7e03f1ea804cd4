#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Last step of the code-interpreter template, run as root inside its root file system.
set -euo pipefail

site=$(python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')

# The libraries' own tests are a tenth of the environment, and nobody runs them here.
for library in numpy pandas scipy sklearn sympy; do
	find "$site/$library" -type d -name tests -prune -exec rm -rf {} +
done

# Text in any script. matplotlib tries the families of its default in turn, glyph by glyph; it can't draw the colour
# emoji that Chromium uses, so that Symbola's outlines stand in, and Unifont has what all others lack. This is
# matplotlib's own file of defaults: rcdefaults() and style.use("default") come back to it.
rc=$site/matplotlib/mpl-data/matplotlibrc
families='DejaVu Sans, Noto Sans CJK SC, Noto Sans Arabic, Noto Sans Devanagari, Noto Sans Bengali, Noto Sans Tamil'
families+=', Noto Sans Thai, Symbola, Noto Sans Symbols2, Unifont Upper, Unifont'
sed -i "s/^#font\.family:.*/font.family: $families/" "$rc"
grep -q '^font\.family: DejaVu' "$rc"

# fontconfig compares the nanoseconds of a folder's time, and the image keeps whole seconds.
find /usr/share/fonts -type d -exec touch -d "@$(date +%s)" {} +
fc-cache -f

# Fill matplotlib's list of fonts, and prove at the same time that a title in these scripts draws without a warning.
python -W error "$PANDASTACK_DEFINITION/check_fonts.py"
