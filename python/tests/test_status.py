import json
import re
from pathlib import Path

from rollcall import Rank, Status
from rollcall.status import parse_status

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "status.md"


def read_documented_status() -> str:
    """Return the example on the page about the annotation."""
    match = re.search(r"```json\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert match, f"{PAGE} contains no example"
    return match.group(1)


def parse(text: str, *ranks: Rank) -> Status:
    return parse_status("train", {"rollcall.training/status": text}, ranks)


def test_the_documented_example() -> None:
    status = parse(read_documented_status())
    assert (status.phase, status.reason, status.restarts) == ("Restarting", "GangRestarting", 1)
    assert not status.finished
    assert status.first_failure is not None
    assert (status.first_failure["rank"], status.first_failure["exitCode"]) == (2, 1)
    assert status.seconds == {"starting": 21, "ran": 3600}
    html = status._repr_html_()
    assert "rank 2, pod train-2-x7k2p, node node-b, reason Error, exit code 1" in html
    assert "ValueError: ..." in html


def test_a_job_without_status() -> None:
    status = parse_status("train", {}, ())
    assert (status.phase, status.finished, status.first_failure) == ("", False, None)
    assert "train" in status._repr_html_()


def test_the_grid_contains_each_rank_and_no_markup_of_users() -> None:
    failure = {"rank": -1, "reason": "<b>", "message": "<script>alert(1)</script>"}
    text = json.dumps({"phase": "Failed", "message": "<i>", "firstFailure": failure})
    status = parse(text, Rank(0, "train-0", "<u>", "Running"), Rank(7, "train-7", "", "Failed"))
    html = status._repr_html_()
    assert "rank 0: Running, pod train-0" in html
    assert ">7</span>" in html
    assert not re.search("<(script|i|u)>", html)
    assert "no rank, reason &lt;b&gt;" in html
