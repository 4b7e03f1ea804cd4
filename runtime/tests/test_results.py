# SPDX-License-Identifier: Apache-2.0
"""What a cell shows: cases K10, K11, K14, K22, and MIME bundles of common libraries."""

from __future__ import annotations

import base64
import json

import pytest
from conftest import KernelClient

from pandastack_kernel import bundles

PLT = "import matplotlib.pyplot as plt\n"


@pytest.fixture(autouse=True)
def _libraries() -> None:
    for name in ("numpy", "pandas", "matplotlib"):
        pytest.importorskip(name)


@pytest.mark.parametrize(
    ("code", "pngs"),
    [
        ("fig = plt.figure(); plt.plot([1]); fig", 1),
        ("plt.plot([1]);", 1),
        ("plt.plot([1]); plt.show()", 1),
        ("for i in range(3):\n    plt.figure(); plt.plot([i]); plt.show()", 3),
        ("for i in range(3):\n    plt.figure(); plt.plot([i])", 3),
        ("fig, ax = plt.subplots(); ax.plot([1]); display(fig)", 1),
        ("fig, ax = plt.subplots(); ax.plot([1]); display(fig); plt.show()", 1),
        ("fig, ax = plt.subplots(); ax.plot([1]); fig.show()", 1),
        ("plt.figure()", 0),
        ("plt.plot([1]); plt.savefig('/dev/null', format='png'); plt.close()", 0),
        ("%matplotlib inline\nplt.plot([1]);", 1),
        ("plt.ion(); plt.plot([1]); plt.show(block=True)", 1),
        ("import matplotlib; matplotlib.use('agg'); plt.plot([1]);", 1),
        ("plt.plot([1]); 1/0", 1),
        ("%%capture out\nplt.plot([1])", 0),
        ("import pandas as pd; pd.DataFrame({'a': [1, 2]}).plot();", 1),
    ],
)
def test_k10_each_figure_once(shared: KernelClient, code: str, pngs: int) -> None:
    answer = shared.run(code if code.startswith("%%") else PLT + code)
    assert answer.pngs == pngs, answer
    for event in answer.results:
        if "image/png" in event["data"]:
            assert base64.b64decode(event["data"]["image/png"]).startswith(b"\x89PNG")
            assert "text/plain" not in event["data"], "clients take the first text for the value of the cell"
    assert not answer.stderr
    after = shared.ok("1")
    assert after.pngs == 0, "a figure came again in the next cell"


def test_k10_the_last_expression_is_the_main_result(shared: KernelClient) -> None:
    assert "image/png" in shared.ok(PLT + "fig = plt.figure(); plt.plot([1]); fig").main
    assert "image/png" in shared.ok("fig").main


def test_k10_order_in_the_stream(shared: KernelClient) -> None:
    answer = shared.ok(PLT + "print('a'); plt.plot([1]); plt.show(); print('b')")
    kinds = [kind for kind, data in answer.frames if data != b"\n"]
    assert kinds == [b"o", b"m", b"o", b"d"]


def test_k11_bar(shared: KernelClient) -> None:
    answer = shared.ok(PLT + "plt.figure(); plt.bar(['a', 'b'], [1, 2]); plt.show()")
    assert answer.pngs == 1


def test_a_figure_that_cannot_be_drawn_is_an_error(shared: KernelClient) -> None:
    answer = shared.run(PLT + r"plt.title(r'$\nosuch$');")
    assert answer.status == "error"
    assert answer.error["name"] == "ValueError"
    assert shared.ok(PLT + "plt.plot([1]);").pngs == 1


def test_figure_format_can_be_set(kernel: KernelClient) -> None:
    answer = kernel.ok("%config InlineBackend.figure_format = 'svg'\n" + PLT + "plt.plot([1]);")
    assert answer.results[-1]["data"]["image/svg+xml"].lstrip().startswith("<?xml")
    answer = kernel.ok("%config InlineBackend.figure_format = 'retina'\nplt.plot([1]);")
    png = base64.b64decode(answer.results[-1]["data"]["image/png"])
    assert answer.results[-1]["metadata"]["image/png"]["width"] == int.from_bytes(png[16:20], "big") // 2


def test_k14_data_frame(shared: KernelClient) -> None:
    answer = shared.ok(
        "import pandas as pd, numpy as np\n"
        "pd.DataFrame({'a': [1.5, np.nan, float('inf')], 'b': ['x', None, pd.NA], 'c': [1, 2, 3]})"
    )
    assert "<table" in answer.main["text/html"]
    assert "NaN" in answer.text
    assert not answer.stderr
    assert not answer.pipe_err


def test_wide_data_frame_is_not_cut_to_a_terminal(shared: KernelClient) -> None:
    answer = shared.ok("import pandas as pd; pd.DataFrame({f'column_{i}': [i] for i in range(15)})")
    assert "column_14" in answer.text
    assert "column_7" in answer.text


def test_series_and_styler(shared: KernelClient) -> None:
    assert "dtype" in shared.ok("import pandas as pd; pd.Series([1, 2])").text
    pytest.importorskip("jinja2")
    assert "<style" in shared.ok("pd.DataFrame({'a': [1]}).style").main["text/html"]


def test_pillow(shared: KernelClient) -> None:
    answer = shared.ok("from PIL import Image; Image.new('RGB', (4, 4), 'red')")
    assert base64.b64decode(answer.main["image/png"]).startswith(b"\x89PNG")


def test_sympy(shared: KernelClient) -> None:
    pytest.importorskip("sympy")
    answer = shared.ok("import sympy; sympy.Symbol('x') ** 2 / 3")
    assert "frac" in answer.main["text/latex"]


@pytest.mark.parametrize("code", ["px.line(x=[1], y=[2], title='T')", "px.line(x=[1], y=[2], title='T').show()"])
def test_plotly(shared: KernelClient, code: str) -> None:
    pytest.importorskip("plotly")
    answer = shared.ok("import plotly.express as px\n" + code)
    (event,) = answer.results
    kinds = set(event["data"]) - {"image/png"}
    assert kinds == {"application/vnd.plotly.v1+json", "application/vnd.pandastack.chart+json", "text/plain"}
    assert event["is_main_result"] is (not code.endswith("show()"))
    spec = json.loads(event["data"]["application/vnd.plotly.v1+json"])
    assert spec["layout"]["title"]["text"] == "T"
    assert event["data"]["text/plain"] == "Figure(scatter, title='T')"


def test_display_kinds(shared: KernelClient) -> None:
    answer = shared.ok(
        "from IPython.display import *\n"
        "display(HTML('<b>x</b>'), Markdown('*x*'), Latex('$x$'), JSON({'a': 1}), SVG('<svg xmlns=\"http://www.w3.org/2000/svg\"/>'))\n"
        "display({'text/plain': 'p', 'application/json': {'k': [1]}}, raw=True, metadata={'m': 1})"
    )
    html, markdown, latex, json_, svg, raw = answer.results
    assert html["data"]["text/html"] == "<b>x</b>"
    assert markdown["data"]["text/markdown"] == "*x*"
    assert latex["data"]["text/latex"] == "$x$"
    assert json.loads(json_["data"]["application/json"]) == {"a": 1}
    assert svg["data"]["image/svg+xml"].startswith("<svg")
    assert json.loads(raw["data"]["application/json"]) == {"k": [1]}
    assert raw["metadata"] == {"m": 1}
    assert not any(event["is_main_result"] for event in answer.results)


def test_own_repr_methods_and_formatters(kernel: KernelClient) -> None:
    answer = kernel.ok(
        "class A:\n    def _repr_html_(self): return '<a>'\n"
        "    def _repr_mimebundle_(self, **k): return {'application/x-own': {'v': 1}}\nA()"
    )
    assert answer.main["text/html"] == "<a>"
    assert answer.main["application/x-own"] == '{"v":1}'
    kernel.ok("get_ipython().display_formatter.formatters['text/html'].for_type(int, lambda i: f'<i>{i}</i>')")
    assert kernel.ok("5").main == {"text/plain": "5", "text/html": "<i>5</i>"}


def test_large_result(shared: KernelClient) -> None:
    assert len(shared.ok("'x' * 1_000_000").text) == 1_000_002


def test_semicolon_and_none(shared: KernelClient) -> None:
    for code in ("1;", "1;  # comment", "None", "x = 1", "';'\nx = 2"):
        assert shared.ok(code).events == []
    assert shared.ok("';'").text == "';'"
    assert shared.ok("1  # ;").text == "1"


def test_altair(shared: KernelClient) -> None:
    """As in a notebook: HTML, or the specification where the code chooses that; each chart once."""
    pytest.importorskip("altair")
    chart = "alt.Chart(pd.DataFrame({'a': [1, 2]})).mark_bar().encode(x='a')"
    answer = shared.ok(f"import altair as alt, pandas as pd\ndisplay({chart})\n{chart}")
    assert [set(event["data"]) for event in answer.results] == [{"text/html", "text/plain"}] * 2
    answer = shared.ok(f"with alt.renderers.enable('mimetype'):\n    display({chart})")
    ((mime, specification),) = (
        item for item in answer.results[0]["data"].items() if item[0].startswith("application/vnd.vegalite.")
    )
    assert json.loads(specification)["mark"]["type"] == "bar", mime


def test_history_names(kernel: KernelClient) -> None:
    assert kernel.ok("40 + 2").done == {"status": "ok", "execution_count": 1}
    assert kernel.ok("_ + 1").text == "43"
    assert kernel.ok("(_1, Out[2], In[1], __, _i)").text == "(42, 43, '40 + 2', 42, '_ + 1')"
    kernel.ok("_ = 'mine'")
    kernel.ok("5")
    assert kernel.ok("_").text == "'mine'"
    assert kernel.ok("len(In)").done == {"status": "ok", "execution_count": 7}
    kernel.ok("get_ipython().displayhook.cache_size = 10\nfor i in range(30): get_ipython().displayhook(i)")


def test_k22_a_font_without_the_glyph_is_completed(shared: KernelClient) -> None:
    # cmr10 has no Cyrillic; DejaVu Sans, which comes with matplotlib, has.
    answer = shared.ok(PLT + "plt.title('\u0416\u0436 plain', family='cmr10'); plt.show()")
    assert answer.pngs == 1
    assert not answer.stderr


def test_large_values_go_ahead_as_bytes() -> None:
    event = {"type": "result", "data": {"text/plain": "é" * 10_000 + "\udcff" * 10_000, "text/html": "<b>"}}
    pieces = bundles.detach(event)
    assert event == {"type": "result", "data": {"text/html": "<b>"}, "body": {"text/plain": len(pieces[0])}}
    assert pieces == [("é" * 10_000 + "\\udcff" * 10_000).encode()]
    assert bundles.detach({"type": "clear_output", "wait": False}) == []


def test_large_value_arrives_whole(shared: KernelClient) -> None:
    text = shared.run("'\\n\\\"é' * 300_000").results[0]["data"]["text/plain"]
    assert text == repr('\n"é' * 300_000)


def test_two_large_values_of_one_result(shared: KernelClient) -> None:
    code = "display({'text/plain': 'a' * 20_000, 'text/html': 'b' * 9_000_000, 'text/latex': 'c'}, raw=True)"
    data = shared.run(code).results[0]["data"]
    assert {mime: (value[0], len(value)) for mime, value in data.items()} == {
        "text/plain": ("a", 20_000),
        "text/html": ("b", 9_000_000),
        "text/latex": ("c", 1),
    }


@pytest.mark.parametrize(
    "code",
    [
        "display({'text/plain': 'x'}, raw=True, metadata={'note': huge})",
        "display(1, display_id=huge)",
        "display({f'text/x-{huge}': 'x'}, raw=True)",
        "display({f'text/x-{n}': 'x' * 16000 for n in range(3000)}, raw=True)",
    ],
)
def test_a_result_that_is_too_large_is_dropped_and_says_so(kernel: KernelClient, code: str) -> None:
    kernel.ok("from IPython.display import display\nhuge = 'x' * (33 << 20)")
    answer = kernel.ok(f"{code};\nprint('after')")
    assert [event["type"] for event in answer.events] == ["dropped"]
    assert answer.events[0]["bytes"] > 32 << 20
    assert answer.stdout == "after\n"
    assert kernel.ok("len(huge)").text == str(33 << 20)
