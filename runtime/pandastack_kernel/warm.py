# SPDX-License-Identifier: Apache-2.0
"""Loading and exercising everything that a first cell may need, before the memory snapshot is taken.

Imports inside the guest run on a software CPU, six to ten times slower than usual, so that whatever is not
loaded here is paid for by a user. What is not installed is skipped.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import sys

from . import figures, pictures
from .kernel import Kernel

# In the order of import. Beyond the libraries themselves: modules that they, IPython or a cell load late.
MODULES = (
    "numpy",
    "numpy.random",
    "numpy.linalg",
    "pandas",
    "pandas.io.formats.style",
    "pandas.io.formats.html",
    "matplotlib",
    "matplotlib.pyplot",
    "matplotlib.dates",
    "matplotlib.backends.backend_agg",
    "pandastack_kernel.mpl_backend",
    "pandastack_kernel.charts_matplotlib",
    "pandastack_kernel.charts_plotly",
    "pandastack_kernel.tables",
    "PIL.Image",
    "PIL.PngImagePlugin",
    "plotly",
    "plotly.graph_objects",
    "plotly.express",
    "plotly.io",
    *("asyncio", "asyncio.subprocess", "subprocess", "threading", "concurrent.futures.thread"),
    *("json", "csv", "re", "math", "statistics", "datetime", "decimal", "fractions", "random", "uuid"),
    *("collections", "itertools", "functools", "dataclasses", "enum", "typing", "copy", "pickle"),
    *("pathlib", "shutil", "tempfile", "glob", "zipfile", "gzip", "io", "logging", "argparse"),
    *("urllib.request", "urllib.parse", "http.client", "ssl", "socket", "hashlib", "base64", "time"),
    *("IPython.display", "IPython.core.display", "IPython.core.magics.execution", "IPython.core.page"),
    *("IPython.core.oinspect", "stack_data", "executing", "pygments.lexers.python", "pygments.formatters"),
    "traceback",
    "jupyter_client.session",
)

# Plain Python is run several times: the interpreter then has its specialised code in the snapshot too.
_CELLS_AGAIN = 12
_CELLS = (
    "print('warm')",
    "1 + 1",
    "x = [i * i for i in range(10)]\nx",
    "def f(n):\n    return n + 1\nf(1)",
    "import sys\nprint('warm', file=sys.stderr)",
)
_CELLS_ONCE = (
    "1 / 0",
    "def broken(:",
    "def g(n):\n    raise ValueError(n)\ng(1)",
    "import asyncio\nawait asyncio.sleep(0)",
    "%time 1",
    "len?",
    "from IPython.display import display, HTML, Markdown, clear_output\ndisplay(HTML('<b>warm</b>'))",
    "display(Markdown('*warm*'), display_id='warm')\nclear_output()",
    "!true",
)
_LIBRARY_CELLS = {
    "numpy": ("import numpy as np\nnp.random.rand(3, 3) @ np.eye(3)", "np.linalg.inv(np.eye(3))"),
    "pandas": (
        "import pandas as pd\ndf = pd.DataFrame({'a': [1, 2, None], 'b': ['x', 'y', 'z'], "
        "'c': pd.to_datetime(['2020-01-01'] * 3)})\ndf",
        "df.describe()",
        "df.groupby('b').a.mean()",
        "import io\npd.read_csv(io.StringIO(df.to_csv(index=False)))",
        "df.merge(df, on='b').sort_values('b')",
        "print(df)",
        # What agents get wrong: the lines of the files that a traceback shows are then in memory.
        "df['nope']",
        "pd.read_csv('/nope')",
    ),
    "matplotlib": (
        "import matplotlib.pyplot as plt\nplt.plot([1, 2, 3], label='é')\nplt.legend()\nplt.title('warm')",
        "fig, axes = plt.subplots(2, 2)\naxes[0, 0].bar(['a', 'b'], [1, 2])\naxes[0, 1].scatter([1], [2])\n"
        "axes[1, 0].hist([1, 2, 2])\naxes[1, 1].imshow([[1, 2], [3, 4]])\nplt.tight_layout()\nplt.show()",
        "fig, ax = plt.subplots()\nax.pie([1, 2])\nfig",
    ),
    "plotly": (
        "import plotly.express as px\npx.line(x=[1, 2], y=[3, 4])",
        "import plotly.graph_objects as go\ngo.Figure(go.Bar(x=['a'], y=[1]))",
        # What these make plotly.js compile stays in the browser.
        "px.scatter(x=[1, 2, 3, 4], y=[3, 4, 5, 4], color=['a', 'b', 'a', 'b'], title='warm').show()",
        "px.histogram(x=[1, 2, 2]).update_layout(title='warm')",
        "px.pie(names=['a', 'b'], values=[1, 2])",
        "px.imshow([[1, 2], [3, 4]])",
        "px.box(y=[1, 2, 3])",
    ),
}


def warm() -> Kernel:
    """Return a kernel that has run its first cells already, with nothing of them left in its namespace.

    The process stays single-threaded. Takes seconds, and ten times that on a software CPU.
    """
    pictures.start()
    # The shell comes first: libraries look for it when they are imported.
    kernel = Kernel()
    for name in MODULES:
        try:
            importlib.import_module(name)
        except ImportError:
            pass
    pictures.wait()
    with pictures.patience():
        _exercise(kernel)
    _forget(kernel)
    return kernel


def _exercise(kernel: Kernel) -> None:
    cells = [*_CELLS * _CELLS_AGAIN, *_CELLS_ONCE]
    for library, more in _LIBRARY_CELLS.items():
        if library in sys.modules:
            cells += more
    kernel.shell.ansi = False
    with contextlib.redirect_stdout(kernel.stdout), contextlib.redirect_stderr(kernel.stderr):
        for cell in cells:
            kernel.run(cell)
        kernel.run("1 / 0", ansi=True)


def _forget(kernel: Kernel) -> None:
    shell = kernel.shell
    figures.show_all()
    shell.cell_loop.close()
    shell.reset(new_session=True)
    shell.compile.reset_compiler_flags()
    shell.ansi = False
    shell.error_count = 0
    for name in ("last_type", "last_value", "last_traceback", "last_exc"):
        if hasattr(sys, name):
            delattr(sys, name)
    gc.collect()
