import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rollcall import FunctionError
from rollcall.function import build_program

OUTSIDE = 1


def run_program(function: Callable[..., Any], **arguments: Any) -> str:
    program = build_program(function, arguments)
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert result.returncode == 0, f"{program}\n{result.stderr}"
    return result.stdout


def test_a_function_runs_with_its_arguments() -> None:
    def train(rate: float, config: "dict[str, object]", names: Path | None = None) -> None:
        import json as encoder  # an import inside of the function

        def inner(value: Any) -> Any:
            return train if value is None else value

        values = [inner(v) for v in (rate, config)]
        print(encoder.dumps(values), names)

    config = {"text": 'it\'s "quoted"\nÄ', "list": [1, 2.5, None, True]}
    assert run_program(train, rate=0.1, config=config) == f"{json.dumps([0.1, config])} None\n"


def test_the_error_of_a_function_is_in_the_report_of_torchrun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def train() -> None:
        print("train")

    package = tmp_path / "torch" / "distributed" / "elastic" / "multiprocessing"
    package.mkdir(parents=True)
    (package / "errors.py").write_text("def record(run): print('recorded'); return run")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert run_program(train) == "train\n"
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", "error.json")
    assert run_program(train) == "recorded\ntrain\n"


def test_a_function_may_define_globals() -> None:
    def train() -> None:
        global OUTSIDE
        OUTSIDE = 2
        print(OUTSIDE, __name__)

    assert run_program(train) == "2 __main__\n"


def uses_a_global() -> None:
    print(OUTSIDE, Path())


def uses_a_default(value: int = OUTSIDE) -> None:
    print(value)


async def is_async() -> None: ...


@pytest.fixture
def is_decorated() -> None: ...


def takes_rate(rate: float) -> None: ...


def uses_a_closure() -> Callable[[], None]:
    value = 1

    def train() -> None:
        print(value)

    return train


@pytest.mark.parametrize(
    ("function", "arguments", "want"),
    [
        pytest.param(uses_a_global, {}, "outside of it: OUTSIDE, Path; import", id="global names"),
        pytest.param(uses_a_default, {}, "outside of it: OUTSIDE", id="a global name as default"),
        pytest.param(uses_a_closure(), {}, "outside of it: value", id="a name of a closure"),
        pytest.param(is_async, {}, "lambda or async", id="an async function"),
        pytest.param(print, {}, "is not a function", id="a builtin"),
        pytest.param(takes_rate, {}, "missing a required argument", id="a missing argument"),
        pytest.param(takes_rate, {"rat": 1}, "rat", id="an unknown argument"),
        pytest.param(takes_rate, {"rate": {1}}, "argument rate", id="an argument that is not JSON"),
        pytest.param(takes_rate, {"rate": float("nan")}, "not JSON", id="not a number"),
        pytest.param(takes_rate, {"rate": (1, 2)}, "lists instead of tuples", id="a tuple"),
        pytest.param(
            takes_rate, {"rate": {1: 2}}, "keys that are texts", id="a key that is a number"
        ),
    ],
)
def test_an_error_contains_the_fix(
    function: Callable[..., Any], arguments: dict[str, Any], want: str
) -> None:
    with pytest.raises(FunctionError) as error:
        build_program(function, arguments)
    assert want in str(error.value)


def test_a_lambda_is_rejected() -> None:
    train = lambda: None  # noqa: E731
    with pytest.raises(FunctionError, match="lambda"):
        build_program(train, {})


def test_a_decorated_function_is_rejected() -> None:
    def keep(function: Callable[[], None]) -> Callable[[], None]:
        return function

    @keep
    def train() -> None: ...

    with pytest.raises(FunctionError, match="decorator"):
        build_program(train, {})


def test_a_function_without_source_is_rejected() -> None:
    names: dict[str, Any] = {}
    exec("def train(): pass", names)
    with pytest.raises(FunctionError, match="the source of train is not available"):
        build_program(names["train"], {})
