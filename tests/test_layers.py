"""What import-linter cannot say: modules that anyone may import must need nothing themselves."""

from __future__ import annotations

import ast
import sys

import pytest

from controlplane.up.environment import ROOT


@pytest.mark.parametrize(
    "path", ["sandboxes/failures.py", "runs/advantages.py", "controlplane/up/tether.py"]
)
def test_a_module_that_anyone_may_import_is_standard_library_only(path: str) -> None:
    imported = set()
    for node in ast.walk(ast.parse((ROOT / path).read_text())):
        if isinstance(node, ast.Import):
            imported |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            imported.add((node.module or "").split(".")[0])
    assert imported <= sys.stdlib_module_names
