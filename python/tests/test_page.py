"""The page of the documentation, and the examples."""

import ast
import inspect
import re
from pathlib import Path

import pytest

import rollcall
from rollcall.submission import _LAUNCHERS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "tasks" / "use-python.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
OPTIONS = {
    *inspect.signature(rollcall.submit).parameters,
    *inspect.signature(rollcall.build_job).parameters,
} - {"command", "options"}


def read_calls(source: str) -> list[ast.Call]:
    return [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]


@pytest.mark.parametrize("block", BLOCKS)
def test_a_block_of_the_page_uses_names_that_exist(block: str) -> None:
    for name in re.findall(r"rollcall\.(\w+)", block):
        assert hasattr(rollcall, name), name
    for call in read_calls(block):
        if ast.unparse(call.func) == "rollcall.submit":
            assert {keyword.arg for keyword in call.keywords} <= OPTIONS


def test_the_page_lists_all_arguments() -> None:
    table = PAGE.partition("Its arguments are:\n")[2].partition("```")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == OPTIONS


def test_the_page_contains_the_default_number_of_pods() -> None:
    pods = inspect.signature(rollcall.build_job).parameters["pods"].default
    assert f"| `pods` | {pods} |" in PAGE
    assert f"`pods={pods}`" in PAGE


@pytest.mark.parametrize(("framework", "launcher"), _LAUNCHERS.items())
def test_the_page_contains_the_launcher_of_a_framework(
    framework: str, launcher: tuple[str, ...]
) -> None:
    assert re.search(rf"^\| .*`{framework}`.* \| `{' '.join(launcher)}`", PAGE, re.MULTILINE)


def test_the_table_of_the_kubeflow_sdk_uses_names_that_exist() -> None:
    table = PAGE.partition("### Calls")[2]
    rows = [line.split("|")[3] for line in table.splitlines() if line.startswith("| ")][1:]
    calls = [call for row in rows for call in re.findall(r"`(\w+)\(([^`]*)\)", row)]
    for name, text in calls:
        function = getattr(rollcall.Gang, name, None) or getattr(rollcall, name)
        known = OPTIONS if name == "submit" else set(inspect.signature(function).parameters)
        assert set(re.findall(r"(\w+)=", text)) <= known, name
    assert len(calls) > 10
