"""The page of the documentation, and the examples."""

import ast
import inspect
import re
from pathlib import Path

import pytest

import rollcall

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "tasks" / "use-python.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
OPTIONS = {
    *inspect.signature(rollcall.submit).parameters,
    *inspect.signature(rollcall.build_job).parameters,
    "launcher",
}


def read_calls(source: str) -> list[ast.Call]:
    return [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]


@pytest.mark.parametrize("block", BLOCKS)
def test_a_block_of_the_page_uses_names_that_exist(block: str) -> None:
    for name in re.findall(r"rollcall\.(\w+)", block):
        assert hasattr(rollcall, name), name
    for call in read_calls(block):
        if ast.unparse(call.func) == "rollcall.submit":
            assert {keyword.arg for keyword in call.keywords} <= OPTIONS


def test_the_table_of_the_kubeflow_sdk_uses_names_that_exist() -> None:
    table = PAGE.partition("## From the Kubeflow SDK")[2]
    rows = [line.split("|")[3] for line in table.splitlines() if line.startswith("| ")][1:]
    calls = [call for row in rows for call in re.findall(r"`(\w+)\(([^`]*)\)", row)]
    for name, text in calls:
        function = getattr(rollcall.Gang, name, None) or getattr(rollcall, name)
        known = OPTIONS if name == "submit" else set(inspect.signature(function).parameters)
        assert set(re.findall(r"(\w+)=", text)) <= known, name
    assert len(calls) > 10
