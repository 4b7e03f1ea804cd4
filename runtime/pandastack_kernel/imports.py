# SPDX-License-Identifier: Apache-2.0
"""Running a function when a library has been imported, so that nothing is imported for its own sake."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

Hook = Callable[[ModuleType], None]


def on_import(name: str, hook: Hook) -> None:
    """Call ``hook(module)`` once the module ``name`` is imported; at once if it is already.

    An exception in ``hook`` is swallowed: a library of an unexpected version must still import.
    """
    module = sys.modules.get(name)
    if module is not None:
        _run(hook, module)
    else:
        _finder.hooks.setdefault(name, []).append(hook)
        if _finder not in sys.meta_path:
            sys.meta_path.insert(0, _finder)


def _run(hook: Hook, module: ModuleType) -> None:
    try:
        hook(module)
    except Exception:
        pass


class _Finder(MetaPathFinder):
    """Finds hooked modules by asking the finders after it, and wraps what loads them."""

    def __init__(self) -> None:
        self.hooks: dict[str, list[Hook]] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        hooks = self.hooks.get(fullname)
        if hooks is None:
            return None
        del self.hooks[fullname]
        try:
            spec = importlib.util.find_spec(fullname)
        except (ImportError, ValueError):
            spec = None
        if spec is None or spec.loader is None:
            self.hooks[fullname] = hooks
            return None
        spec.loader = _HookedLoader(spec.loader, hooks)
        return spec


class _HookedLoader(Loader):
    """Stands for a module's loader until the module is executed; then puts the real one back."""

    def __init__(self, loader: Loader, hooks: list[Hook]) -> None:
        self._loader = loader
        self._hooks = hooks

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        try:
            self._loader.exec_module(module)
        except BaseException:
            _finder.hooks.setdefault(module.__name__, self._hooks)
            raise
        for hook in self._hooks:
            _run(hook, module)


_finder = _Finder()
