# SPDX-License-Identifier: Apache-2.0
"""The Python kernel that runs inside a pandastack guest.

Two processes are made of this package. The *zygote* (``zygote``) starts once, when a template is baked:
it loads everything that a first cell may need and then forks *kernels* (``kernel``) on request. A kernel
is one IPython shell with one control socket; README.md describes the protocol and the reading order.
"""

__version__ = "0.1.0"
