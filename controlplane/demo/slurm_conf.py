"""The configuration of the laboratory's Slurm: loopback only, free ports, and quick about everything.

Nothing limits how much of a machine the nodes together may claim, no accounts are kept, and
processes are tracked by their parents, so that it works in any container.
"""

import getpass
import socket
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from controlplane.embedded.ports import LOOPBACK

CREDENTIAL_S = 5
"""Seconds for which a credential is valid; a requeued job is held back for one second more."""

SETTINGS = """
ClusterName=lab
SlurmctldHost={host}({loopback})
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock,cred_expire={credential_s}
CredType=cred/munge
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
StateSaveLocation={folder}/state
SlurmctldLogFile={folder}/slurmctld.log
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdLogFile={folder}/slurmd-%n.log
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmdSpoolDir={folder}/spool-%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/completed.txt
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1,sched_min_interval=0,bf_interval=1,batch_sched_delay=0
SlurmdParameters=config_overrides
ReturnToService=1
SlurmdTimeout=10
KillWait=3
MinJobAge=300
MessageTimeout=5
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
SlurmctldParameters=preempt_send_user_signal
"""
PARTITIONS = """
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1 GraceTime=5
PartitionName=urgent Nodes=ALL Default=NO MaxTime=INFINITE State=UP PriorityTier=9 PreemptMode=OFF
"""


def text(folder: Path, nodes: Sequence[str], cpus: int, changed: Mapping[str, str]) -> str:
    """Write slurm.conf for a laboratory below `folder`; `changed` replaces lines."""
    host = socket.gethostname().partition(".")[0]
    controller, *ports = _free_ports(len(nodes) + 1)
    filled = SETTINGS.format(
        host=host, loopback=LOOPBACK, port=controller, user=getpass.getuser(), folder=folder, credential_s=CREDENTIAL_S
    )
    lines = dict(line.split("=", 1) for line in filled.split("\n") if line) | dict(changed)
    machines = [
        f"NodeName={node} NodeHostname={host} NodeAddr={LOOPBACK} Port={port} CPUs={cpus} RealMemory=4000"
        for node, port in zip(nodes, ports, strict=True)
    ]
    return "\n".join([*(f"{key}={value}" for key, value in lines.items()), *machines, PARTITIONS])


def _free_ports(count: int) -> list[int]:
    """Return ports that are free now, each another."""
    with ExitStack() as held:
        probes = [held.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind((LOOPBACK, 0))
        return [int(probe.getsockname()[1]) for probe in probes]
