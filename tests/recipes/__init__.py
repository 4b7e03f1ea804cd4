# SPDX-License-Identifier: Apache-2.0
"""The recipes as tests: run.py runs them, story.json is what their scripted models say."""
