# SPDX-License-Identifier: Apache-2.0
"""The version, where everything can import it."""

__version__ = "0.1.0"
