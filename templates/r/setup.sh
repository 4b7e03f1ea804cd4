#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Last step of the r template, run as root inside its root file system: prove that R draws without a display, and that
# its Jupyter kernel is where the runtime looks for it.
set -euo pipefail

R --vanilla -s <<'END'
stopifnot(getOption("bitmapType") == "cairo")
file <- tempfile(fileext = ".png")
png(file)
print(ggplot2::ggplot(data.frame(a = 1:3), ggplot2::aes(a, a)) + ggplot2::geom_point() + ggplot2::ggtitle("é 漢"))
invisible(dev.off())
stopifnot(file.size(file) > 1000)
END

python - <<'END'
import json

with open("/usr/share/jupyter/kernels/ir/kernel.json", encoding="utf-8") as file:
    assert json.load(file)["language"] == "R"
END
