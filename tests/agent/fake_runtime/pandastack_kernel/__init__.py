# SPDX-License-Identifier: Apache-2.0
"""A stand-in for the kernel runtime, for tests of the agent alone."""
