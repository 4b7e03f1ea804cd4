# SPDX-License-Identifier: Apache-2.0
"""Measure a kernel's round trips on this machine, without a VM.

Usage: ``python bench_kernel.py [repetitions]``. Prints one line for each case: median and 90th percentile in
milliseconds, from the request's first byte to the ``d`` frame, this client's own work included.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "tests"))

from conftest import KernelClient, Zygote

CASES = (
    ("1+1", "1+1", 1.0),
    ("assignment", "x = 1", 1.0),
    ("print, 100 kB in one write", "print('x' * 100_000)", 1.0),
    ("print, 100 kB in 1,000 lines", "for _ in range(1000): print('x' * 99)", 1.0),
    ("print, 100,000 lines", "for i in range(100_000): print(i)", 0.02),
    ("result of 1 MB", "'x' * 1_000_000", 0.3),
    ("print of 22 MB", "print('x' * 22_000_000)", 0.02),
    ("error (1/0)", "1/0", 0.5),
    ("data frame, 10 x 4", "import pandas as pd; pd.DataFrame({c: range(10) for c in 'abcd'})", 0.5),
    ("figure", "import matplotlib.pyplot as plt; plt.plot([1, 2]);", 0.1),
    ("!true", "!true", 0.3),
)


def report(name: str, times_s: list[float]) -> None:
    """Print one case's line."""
    ordered = sorted(times_s)
    median = statistics.median(ordered) * 1e3
    tail = ordered[min(len(ordered) - 1, int(len(ordered) * 0.9))] * 1e3
    print(f"{name:32} {median:10.3f} {tail:10.3f}   n={len(ordered)}")


def dirty_kib(kernel: KernelClient) -> int:
    """Return the memory that a kernel does not share, in KiB."""
    for line in Path(f"/proc/{kernel.pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Private_Dirty:"):
            return int(line.split()[1])
    return -1


def main() -> None:
    """Run all cases."""
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    started = time.perf_counter()
    zygote = Zygote()
    print(f"zygote warm after {time.perf_counter() - started:.1f} s, {zygote.ready}")
    print(f"{'case':32} {'median ms':>10} {'p90 ms':>10}")
    forks = []
    for _ in range(20):
        started = time.perf_counter()
        kernel = zygote.kernel()
        forks.append(time.perf_counter() - started)
        kernel.close()
    report("fork to ready", forks)
    kernel = zygote.kernel()
    fresh = dirty_kib(kernel)
    for name, code, share in CASES:
        times = []
        for _ in range(max(int(repetitions * share), 3)):
            started = time.perf_counter()
            kernel.run(code)
            times.append(time.perf_counter() - started)
        report(name, times)
    print(f"private memory of a kernel: {fresh} KiB when ready, {dirty_kib(kernel)} KiB after all of this")
    kernel.close()
    zygote.close()


if __name__ == "__main__":
    main()
