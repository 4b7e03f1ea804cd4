# SPDX-License-Identifier: Apache-2.0
"""All that waits for the daemon."""
