"""The steps of the programs in this folder. With HOLD=1, a program trains until a node fails."""

import itertools
import os
import pathlib
import socket
import time

STEPS = int(os.environ.get("STEPS", "40"))
HOLDS = os.environ.get("HOLD") == "1"


def steps(forever=False):
    for step in itertools.count(1) if forever or HOLDS else range(1, STEPS + 1):
        if step == 3:
            print("trains", flush=True)
        time.sleep(0.25)
        yield step


def end(result):
    line = f"result {result}\n"
    print(line, end="", flush=True)
    if "RESULTS" in os.environ:
        pathlib.Path(os.environ["RESULTS"], socket.gethostname()).write_text(line)
