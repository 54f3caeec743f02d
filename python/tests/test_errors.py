import json

import pytest

from rollcall import Cause
from rollcall.errors import parse_denial

MESSAGE = (
    'admission webhook "mutate.rollcall.training" denied the request: '
    'Job.batch "train" is invalid: '
    "spec.completions: Invalid value: 2: must equal parallelism (4); set both to 4"
)
BODY = json.dumps(
    {
        "kind": "Status",
        "status": "Failure",
        "message": MESSAGE,
        "reason": "Invalid",
        "details": {
            "causes": [
                {
                    "reason": "FieldValueInvalid",
                    "message": "Invalid value: 2: must equal parallelism (4); set both to 4",
                    "field": "spec.completions",
                }
            ]
        },
        "code": 422,
    }
)


def test_a_denial_has_field_and_fix() -> None:
    denial = parse_denial(BODY)
    assert denial is not None
    text = "Invalid value: 2: must equal parallelism (4); set both to 4"
    assert denial.causes == (Cause("spec.completions", text),)
    assert denial.causes[0].fix == "set both to 4"
    assert denial.webhook == "mutate.rollcall.training"
    assert denial.message == MESSAGE
    assert str(denial) == f"rejected:\n  spec.completions: {text}"


def test_a_refusal_without_causes_keeps_its_text() -> None:
    text = 'admission webhook "policy.example.com" denied the request: no GPUs on Mondays'
    denial = parse_denial(json.dumps({"message": text, "code": 403}))
    assert denial is not None
    assert (str(denial), denial.webhook, denial.code) == (text, "policy.example.com", 403)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(None, id="no body"),
        pytest.param("<html>", id="no JSON"),
        pytest.param("[]", id="a list"),
        pytest.param(
            '{"message": "jobs.batch \\"train\\" already exists", "code": 409}', id="exists"
        ),
        pytest.param('{"message": "jobs.batch is forbidden", "code": 403}', id="no permission"),
    ],
)
def test_another_error_is_no_denial(body: str | None) -> None:
    assert parse_denial(body) is None


def test_a_message_without_a_fix() -> None:
    assert Cause("spec", "Required value").fix == ""
