# SPDX-License-Identifier: Apache-2.0
"""Charts as pictures and as data, tables as data, in a real machine whose browser waits in the snapshot."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

from harness import Session
from harness.daemon import REPO

CHART = "application/vnd.pandastack.chart+json"
TABLE = "application/vnd.dataresource+json"
PLOTLY = "application/vnd.plotly.v1+json"
DRAWS_MS = 90_000
"""A picture takes seconds on a software CPU, and more while the machine is busy."""


def png_size(text: str) -> tuple[int, int]:
    data = base64.b64decode(text, validate=True)
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")


def only(kernel: Session, code: str, **body: Any) -> dict[str, str]:
    got = kernel.ok(code, timeout_ms=DRAWS_MS, **body)
    assert got["stderr"] == ""
    assert len(got["results"]) == 1, got["results"]
    bundle: dict[str, str] = got["results"][0]
    return bundle


def test_K11_bars_as_data(kernel: Session) -> None:
    code = (
        "import matplotlib.pyplot as plt\nplt.figure(); plt.bar(['a', 'b'], [1, 2.5]); plt.title('T'); "
        "plt.xlabel('kind'); plt.ylabel('Speed (km/h)'); plt.show()"
    )
    bundle = only(kernel, code)
    assert png_size(bundle["image/png"]) > (100, 100)
    chart = json.loads(bundle[CHART])
    assert (chart["type"], chart["title"], chart["x_label"], chart["y_unit"]) == ("bar", "T", "kind", "km/h")
    assert [(e["label"], e["value"]) for e in chart["elements"]] == [("a", 1), ("b", 2.5)]


def test_subplots_as_data(kernel: Session) -> None:
    code = "fig, axes = plt.subplots(1, 2); axes[0].plot([1, 2]); axes[1].scatter([1], [2]); fig"
    chart = json.loads(only(kernel, "import matplotlib.pyplot as plt\n" + code)[CHART])
    assert chart["type"] == "superchart"
    assert [c["type"] for c in chart["elements"]] == ["line", "scatter"]


def test_K14_table_as_data(kernel: Session) -> None:
    code = (
        "import pandas as pd, numpy as np\n"
        "pd.DataFrame({'n': [1.5, np.nan], 'o': [None, pd.NA], 'i': [np.inf, 1], 't': ['é', None]})"
    )
    bundle = only(kernel, code)
    assert "<table" in bundle["text/html"]
    table = json.loads(bundle[TABLE])
    assert table["rows"] == 2
    assert table["data"][0]["n"] == 1.5
    assert table["data"][1]["n"] is None
    assert table["data"][0]["t"] == "é"


def test_plotly_has_a_picture_at_once(kernel: Session) -> None:
    bundle = only(kernel, "import plotly.express as px\npx.line(x=[1, 2, 3], y=[1, 3, 2], title='Größe')")
    assert png_size(bundle["image/png"]) == (700, 500)
    assert json.loads(bundle[PLOTLY])["layout"]["title"]["text"] == "Größe"
    chart = json.loads(bundle[CHART])
    assert (chart["type"], chart["title"]) == ("line", "Größe")
    assert chart["elements"][0]["points"] == [[1, 1], [2, 3], [3, 2]]


def test_plotly_show_and_write_image(kernel: Session) -> None:
    bundle = only(kernel, "import plotly.graph_objects as go\ngo.Figure(go.Bar(x=['a'], y=[2])).show()")
    assert png_size(bundle["image/png"]) == (700, 500)
    code = "fig = go.Figure(go.Bar(x=['a'], y=[2])); fig.write_image('c.png', width=300, height=200)"
    got = kernel.ok(code, timeout_ms=DRAWS_MS)
    assert got["files_changed"] == ["/workspace/c.png"]
    assert png_size(base64.b64encode(kernel.sandbox.read("/workspace/c.png")).decode()) == (300, 200)
    svg = kernel.text("fig.to_image('svg')[:200]", timeout_ms=DRAWS_MS)
    assert "<svg" in svg


def test_the_browser_costs_nothing_while_nobody_asks(kernel: Session) -> None:
    """It is stopped, in every process, before the first picture and after it."""
    states = (
        "import glob\n[open(p).read().rpartition(')')[2].split()[0] for p in glob.glob('/proc/[0-9]*/stat')"
        " if 'chromium' in open(p).read() or 'headless' in open(p).read()]"
    )
    for _ in range(2):
        found = set(eval(kernel.text(states)))
        assert found == {"T"}, found
        only(kernel, "import plotly.express as px\npx.bar(x=['a'], y=[1])")


def test_an_interrupted_picture_leaves_the_browser_alive(kernel: Session) -> None:
    kernel.ok("import plotly.graph_objects as go, numpy as np\nkept = 1", timeout_ms=DRAWS_MS)
    details = kernel.timeout("go.Figure(go.Scatter(y=np.random.rand(200_000), mode='markers')).to_image()", 3)
    assert details["state_lost"] is False
    assert kernel.text("kept") == "1"
    # The page may have to be loaded anew, for which a figure that is only displayed does not wait.
    assert kernel.text("go.Figure(go.Bar(x=['a'], y=[1])).to_image()[1:4]", timeout_ms=2 * DRAWS_MS) == "b'PNG'"
    assert "image/png" in only(kernel, "go.Figure(go.Bar(x=['a'], y=[1]))")


def test_the_examples_of_the_docs(kernel: Session) -> None:
    """Each block of Python in docs/charts.md has the data that stand behind it."""
    text = (REPO / "docs/charts.md").read_text()
    examples = re.findall(r"^```python\n(.*?)^```\n```json\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(examples) == 2
    kernel.ok("import matplotlib.pyplot as plt, pandas as pd")
    for code, wanted in examples:
        data = [
            json.loads(b.get(CHART) or b.get(TABLE) or "null")
            for b in kernel.ok(code, timeout_ms=DRAWS_MS)["results"]
        ]
        assert json.loads(wanted) in data
