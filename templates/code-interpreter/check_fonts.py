# SPDX-License-Identifier: Apache-2.0
"""Draw a chart with text in many scripts; run with -W error, a missing glyph or font ends it."""

import io
import logging

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt

# The runtime's fallback (FALLBACK_FONTS in pandastack_kernel/figures.py), as far as Debian's packages give it. matplotlib
# can't draw the colour emoji that Chromium uses: Symbola's outlines stand in, and Unifont has what all others lack.
plt.rcParams["font.family"] = [
    "DejaVu Sans",
    "Noto Sans CJK SC",
    "Noto Sans Arabic",
    "Noto Sans Devanagari",
    "Noto Sans Bengali",
    "Noto Sans Tamil",
    "Noto Sans Thai",
    "Symbola",
    "Noto Sans Symbols2",
    "Unifont Upper",
    "Unifont",
]
TEXTS = ("温度 图表", "日本語 한국어", "مخطط الحرارة", "עברית हिन्दी বাংলা தமிழ் ไทย", "🚀📈😀🤖🥇🧠🫠 ✅❤▲")


class Complaint(logging.Handler):
    """matplotlib logs a font family that it can't find, and goes on: not here."""

    def emit(self, record: logging.LogRecord) -> None:
        raise SystemExit(record.getMessage())


logging.getLogger("matplotlib.font_manager").addHandler(Complaint(logging.WARNING))
figure, axes = plt.subplots()
axes.set_title(" ".join(TEXTS))
axes.plot(range(len(TEXTS)), label=TEXTS[-1])
axes.set_xticks(range(len(TEXTS)), TEXTS)
axes.legend()
figure.savefig(io.BytesIO(), format="png")
print(f"{len(TEXTS)} texts drawn")
