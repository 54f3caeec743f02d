"""The steps of the programs in this folder. With HOLD=1, the first attempt trains until a node fails."""

import itertools
import os
import time

STEPS = int(os.environ.get("STEPS", "40"))
HOLDS = os.environ.get("HOLD") == "1"


def steps(attempt=os.environ.get("ROLLCALL_ATTEMPT"), forever=False):
    for step in itertools.count(1) if forever or HOLDS and attempt == "0" else range(1, STEPS + 1):
        if step == 3:
            print("trains", flush=True)
        time.sleep(0.25)
        yield step


def end(result):
    print(f"result {result}", flush=True)
