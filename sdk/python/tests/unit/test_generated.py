# SPDX-License-Identifier: Apache-2.0
"""What is generated is what would be generated now; versions agree; old Pythons can read it all."""

from __future__ import annotations

import ast
import importlib.util
import re
from pathlib import Path

import pytest

import pandastack
from pandastack._codes import STATUS_OF_CODE
from pandastack.errors import PandastackError, make_error

SDK = Path(__file__).resolve().parents[2]
REPO = SDK.parents[1]


def test_generated_files_are_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(SDK)
    spec = importlib.util.spec_from_file_location("generate", SDK / "generate.py")
    assert spec
    assert spec.loader
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    for path, text in generate.generated().items():
        assert path.read_text() == text, f"run sdk/python/generate.py: {path} is not what it makes"


def test_every_row_of_errors_def_is_known() -> None:
    rows = (REPO / "api" / "errors.def").read_text().count("\nX(")
    assert len(STATUS_OF_CODE) == rows > 0


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("internal", "ServerError"),
        ("request.invalid", "BadRequestError"),
        ("auth.unauthorized", "AuthError"),
        ("not_found", "NotSupportedError"),
        ("sandbox.not_found", "NotFoundError"),
        ("template.unknown", "BadRequestError"),
        ("file.not_found", "NotFoundError"),
        ("request.method", "NotSupportedError"),
        ("conflict", "ConflictError"),
        ("request.too_large", "BadRequestError"),
        ("limit.reached", "LimitError"),
        ("not_supported", "NotSupportedError"),
        ("sandbox.failed", "SandboxFailed"),
        ("template.stale", "ServerError"),
        ("timeout", "SandboxTimeout"),
        ("no_space", "ServerError"),
        ("of a newer daemon", "ServerError"),
    ],
)
def test_class_of_a_code(code: str, name: str) -> None:
    """Also without a status, as in the `error` event of a stream."""
    error = make_error({"error": "words", "code": code})
    assert type(error).__name__ == name
    assert error.status == STATUS_OF_CODE.get(code, 500)
    assert error.code == code
    assert "words" in str(error)


def test_one_tree() -> None:
    errors = [v for v in vars(pandastack).values() if isinstance(v, type) and issubclass(v, Exception)]
    assert len(errors) > 10
    assert all(issubclass(e, PandastackError) for e in errors)


def test_all_is_exported() -> None:
    assert sorted(pandastack.__all__) == pandastack.__all__
    assert all(hasattr(pandastack, name) for name in pandastack.__all__)


def test_version_is_the_daemons() -> None:
    declared = re.search(r"version: '(.*)'", (REPO / "meson.build").read_text())
    assert declared
    assert declared[1] == pandastack.__version__


@pytest.mark.parametrize("path", sorted((SDK / "pandastack").rglob("*.py")), ids=str)
def test_python_39_can_read_it(path: Path) -> None:
    text = path.read_text()
    ast.parse(text, feature_version=(3, 9))
    assert "from __future__ import annotations" in text or "|" not in text
