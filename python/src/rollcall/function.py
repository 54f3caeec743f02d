"""Turns a function into a program that runs in another process."""

from __future__ import annotations

import ast
import builtins
import inspect
import json
import symtable
import textwrap
from collections.abc import Callable, Mapping
from typing import Any

from rollcall.errors import FunctionError

# Below torchrun, record adds the error of the function to the report that ends the log.
_PROGRAM = """from __future__ import annotations

{source}

if __name__ == "__main__":
    import json
    import os

    run = {name}
    if "TORCHELASTIC_ERROR_FILE" in os.environ:
        from torch.distributed.elastic.multiprocessing.errors import record

        run = record(run)
    run(**json.loads({encoded!r}))
"""


def build_program(function: Callable[..., Any], arguments: Mapping[str, Any]) -> str:
    """Return the source of a program that calls a function with arguments.

    The program contains only the source of the function. The function must therefore import what it
    uses. The arguments travel as JSON.
    """
    source, definition = _read_source(function)
    name = definition.name
    missing = _find_undefined_names(definition)
    if missing:
        raise FunctionError(
            f"{name} uses names that are defined outside of it: {', '.join(missing)}; "
            f"import or define them inside of {name}, or pass them as arguments"
        )
    try:
        inspect.signature(function).bind(**arguments)
    except TypeError as error:
        raise FunctionError(f"{name}: {error}; change the arguments") from error
    encoded = _encode_arguments(name, arguments)
    return _PROGRAM.format(source=source.rstrip(), name=name, encoded=encoded)


def _read_source(function: Callable[..., Any]) -> tuple[str, ast.FunctionDef]:
    """Return the source of a function, and its syntax tree."""
    if not inspect.isfunction(function):
        raise FunctionError(f"{function!r} is not a function; pass a function defined with def")
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except OSError as error:
        raise FunctionError(
            f"the source of {function.__name__} is not available; "
            "define it in a file or in a cell of a notebook"
        ) from error
    try:
        definition = ast.parse(source).body[0]
    except SyntaxError as error:
        raise FunctionError(
            f"the source of {function.__name__} is not a statement of its own; "
            "define the function with def, and indent comments like the code"
        ) from error
    if not isinstance(definition, ast.FunctionDef):
        raise FunctionError(f"{function.__name__} is a lambda or async; define a function with def")
    if definition.decorator_list:
        raise FunctionError(
            f"{definition.name} has a decorator, which the program does not contain; "
            "remove the decorator, or apply it inside of the function"
        )
    return source, definition


def _find_undefined_names(definition: ast.FunctionDef) -> list[str]:
    """Return the names that a function reads, but that only exist outside of it."""
    for node in ast.walk(definition):  # annotations are not evaluated in the program
        if isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.returns = None
    undefined: set[str] = set()
    tables = [symtable.symtable(ast.unparse(definition), "program", "exec")]
    defined = {symbol.get_name() for symbol in tables[0].get_symbols() if symbol.is_assigned()}
    while tables:
        table = tables.pop()
        tables.extend(table.get_children())
        for symbol in table.get_symbols():
            if symbol.is_declared_global() and symbol.is_assigned():
                defined.add(symbol.get_name())
            is_global = symbol.is_global() or table.get_type() == "module"
            if is_global and symbol.is_referenced():
                undefined.add(symbol.get_name())
    known = {*defined, *dir(builtins), "__name__", "__file__"}
    return sorted(undefined - known)


def _encode_arguments(name: str, arguments: Mapping[str, Any]) -> str:
    """Return arguments as JSON, or fail for the first argument that changes on the way."""
    for key, value in arguments.items():
        try:
            arrives_equal = json.loads(json.dumps(value, allow_nan=False)) == value
        except (TypeError, ValueError) as error:
            raise FunctionError(
                f"the argument {key} of {name} is not JSON: {error}; "
                "pass numbers, texts, lists and dicts with keys that are texts"
            ) from error
        if not arrives_equal:
            raise FunctionError(
                f"the argument {key} of {name} changes as JSON; "
                "pass lists instead of tuples, and dicts with keys that are texts"
            )
    return json.dumps(dict(arguments))
