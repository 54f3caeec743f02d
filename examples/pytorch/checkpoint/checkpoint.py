"""Checkpoints in a directory that survives the pods. It needs only the standard library.

A checkpoint is complete when its file has its final name. A process that is killed while it saves leaves a
temporary file, which nobody loads.
"""

import os
import re

NAME = re.compile(r"step-(\d+)\.pt")


def save(directory, step, write, keep=3):
    """Calls write(file), gives the file the name of the step, and removes all but the newest checkpoints."""
    os.makedirs(directory, exist_ok=True)
    path = os.path.join(directory, f"step-{step}.pt")
    with open(path + ".partial", "wb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())  # the content is on the disk before the name
    os.replace(path + ".partial", path)
    folder = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    for old in list_steps(directory)[:-keep]:
        os.remove(os.path.join(directory, f"step-{old}.pt"))


def newest(directory):
    """Returns the step and the path of the newest complete checkpoint; 0 and None without one."""
    steps = list_steps(directory)
    return (steps[-1], os.path.join(directory, f"step-{steps[-1]}.pt")) if steps else (0, None)


def list_steps(directory):
    """Returns the steps of all complete checkpoints, the oldest first."""
    names = os.listdir(directory) if os.path.isdir(directory) else []
    return sorted(int(match[1]) for match in map(NAME.fullmatch, names) if match)
