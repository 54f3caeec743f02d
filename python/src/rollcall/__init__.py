"""Run distributed training on Kubernetes with Rollcall.

A gang is a Job with a label, so this package only creates Jobs and reads what Kubernetes and
Rollcall report. Each rule about gangs is in the admission webhook of the cluster, which rejects a
Job with mistakes: see Denied.

    import rollcall

    gang = rollcall.submit("train", ["torchrun", "train.py"], image="registry.example.com/train:1",
                           pods=4, gpus=8)
    gang.wait()
    for line in gang.logs(rank=0):
        print(line)
"""

from rollcall.errors import Cause, Denied, FunctionError, GangFailed, RollcallError, RollcallWarning
from rollcall.function import build_program
from rollcall.gang import Gang, list_gangs
from rollcall.progress import Progress
from rollcall.status import Rank, Status
from rollcall.submission import build_job, submit

__all__ = [
    "Cause",
    "Denied",
    "FunctionError",
    "Gang",
    "GangFailed",
    "Progress",
    "Rank",
    "RollcallError",
    "RollcallWarning",
    "Status",
    "build_job",
    "build_program",
    "list_gangs",
    "submit",
]
