# SPDX-License-Identifier: Apache-2.0
"""Adapters for frameworks that want a class of their own. Each module needs its framework, and nothing else does.

A sandbox is made and ended by its owner; an adapter only uses it.
"""
