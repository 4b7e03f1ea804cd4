# SPDX-License-Identifier: Apache-2.0
"""api/openapi.yaml, and whether answers are what it says.

tests/integration/conftest.py has every answer looked at that a test gets by harness.Api: status, kind and JSON.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import requests
import yaml
from openapi_schema_validator import OAS30Validator
from referencing import Registry
from referencing.jsonschema import DRAFT4

FILE = Path(__file__).parents[2] / "api" / "openapi.yaml"
METHODS = ("get", "post", "put", "patch", "delete")
BASE = "urn:api"
ERROR = f"{BASE}#/components/schemas/Error"
# What answers there is a server in a sandbox.
FOREIGN = re.compile(r"/v1/sandboxes/[^/]+/proxy/|/v1/p/")


@dataclass(frozen=True)
class Operation:
    """A method of a path."""

    method: str
    path: str
    responses: dict[str, Any]

    @functools.cached_property
    def pattern(self) -> re.Pattern[str]:
        """What paths are its."""
        return re.compile(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(self.path)))


class Contract:
    """The document, read once."""

    def __init__(self) -> None:
        document = yaml.safe_load(re.sub(r'(\$ref: ")#', rf"\1{BASE}#", FILE.read_text()))
        self._document = document
        self._registry: Registry[Any] = Registry().with_resource(BASE, DRAFT4.create_resource(document))
        self.operations = [
            Operation(method.upper(), path, operation["responses"])
            for path, operations in document["paths"].items()
            for method, operation in operations.items()
            if method in METHODS
        ]

    def find(self, method: str, path: str) -> Operation | None:
        """The operation that a request is for."""
        method = "GET" if method == "HEAD" else method
        found = (o for o in self.operations if o.method == method and o.pattern.fullmatch(path))
        return min(found, key=lambda o: o.path.count("{"), default=None)

    def _resolved(self, response: dict[str, Any]) -> dict[str, Any]:
        if "$ref" in response:
            kind, name = response["$ref"].split("/")[-2:]
            response = self._document["components"][kind][name]
        return response

    def check(self, response: requests.Response) -> None:
        """An AssertionError where the answer is not what the contract says."""
        method, path = str(response.request.method), urlsplit(str(response.url)).path
        if FOREIGN.match(path):
            return
        operation, status = self.find(method, path), response.status_code
        kind = response.headers.get("Content-Type", "").split(";")[0]
        what = f"{method} {path}: {status}"
        responses = operation.responses if operation else {}
        described = responses.get(str(status)) or (responses.get("default") if status >= 400 else None)
        if described is None:
            assert status >= 400, f"{what} is not in {FILE.name}"
            self._check_json({"$ref": ERROR}, response, what)
            return
        content = self._resolved(described).get("content", {})
        if method == "HEAD" or (not content and not kind):
            return
        assert kind in content, f"{what} has {kind or 'no body'}, {FILE.name} says {list(content)}"
        if kind == "application/json":
            self._check_json(content[kind]["schema"], response, what)

    def _check_json(self, schema: dict[str, Any], response: requests.Response, what: str) -> None:
        if response.request.method == "HEAD" or not response.content:
            return
        errors = list(OAS30Validator(schema, registry=self._registry).iter_errors(response.json()))
        assert not errors, f"{what}: {errors[0].message} at {errors[0].json_path}; {FILE.name} says otherwise"


contract = Contract()
