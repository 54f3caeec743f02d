"""Trains with pauses that are no hangs. The argument names the pause."""

import itertools
import pathlib
import signal
import sys
import time

PAUSE_SECONDS = {"evaluation": 60, "checkpoint": 60, "rare": 60, "announced": 300}
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # process 1 ignores it otherwise
kind = sys.argv[1]
for step in itertools.count(1):
    print(f"step {step}", flush=True)
    pathlib.Path("/tmp/progress").touch()
    is_paused = kind == "rare" or step % 30 == 0
    if is_paused and kind == "announced":
        print("evaluates", flush=True)
    if is_paused and kind == "checkpoint":
        pathlib.Path("/tmp/checkpoint").write_bytes(b"x" * (64 << 20))
    time.sleep(PAUSE_SECONDS[kind] if is_paused else 1)
