"""Which lines are worth telling. Judging them is the control plane's business; this only keeps the noise at home."""

import re

_KERNEL = re.compile(
    r"""
    NVRM | \bXid\b | \bSXid\b | nvidia-nvswitch | nvlink
    | Out\ of\ memory | oom-kill | oom_reaper | Killed\ process | Memory\ cgroup
    | EXT4-fs\ (?:error|warning) | XFS\b.*(?:error|corrupt|shutdown|metadata) | BTRFS\b.*(?:error|critical)
    | \bnvme\d.*(?:timeout|reset|abort|I/O|error|controller\ is\ down|failed) | blk_update_request
    | I/O\ error | Buffer\ I/O
    | Remounting\ filesystem\ read-only | nfs:\ server | LustreError | \bceph\b.*(?:error|hung)
    | mlx5.*(?:error|fail|health|timeout|down|assert|Link) | \b(?:ib|bond|eth|en)\w+:.*[Ll]ink\ (?:is\ )?[Dd]own
    | NETDEV\ WATCHDOG
    | hung_task | blocked\ for\ more\ than | soft\ lockup | hard\ LOCKUP | rcu.*(?:stall|detected) | RCU\ .*stall
    | mce:.*(?:[Ee]rror|[Ee]xception) | Machine\ Check\ (?:Exception|Event) | Hardware\ Error
    | EDAC.*(?:\b[CU]E\b|error)
    | AER:.*(?:[Cc]orrect|[Ee]rror) | PCIe\ Bus\ Error | pcieport.*(?:error|DPC)
    | thermal.*(?:critical|shutdown|trip|above) | [Tt]hrottl | temperature\ above
    | segfault | general\ protection | traps: | kernel\ BUG | BUG: | Oops | Call\ Trace | Kernel\ panic | WARNING:\ CPU
    """,
    re.VERBOSE,
)
_SERVICE = re.compile(
    r"error|fail|fatal|warn|critical|panic|timeout|timed out|not respond|down|drain|abort|unreachable|invalid|killed",
    re.IGNORECASE,
)
_RANK = re.compile(
    r"""
    Traceback\ \(most\ recent\ call\ last\) | ^\w*(?:Error|Exception|Interrupt)\b | ^[\w.]+(?:Error|Exception):
    | CUDA\ error | CUDA\ out\ of\ memory | OutOfMemoryError | device-side\ assert
    | NCCL\ (?:WARN|ERROR) | ncclSystemError | ncclInternalError | ncclRemoteError | ncclUnhandledCudaError
    | Watchdog\ caught | ProcessGroupNCCL | Connection\ (?:reset|closed|refused)\ by | Broken\ pipe
    | Segmentation\ fault | Bus\ error | \bAborted\b | core\ dumped | terminate\ called
    | \bnan\b.{0,100}(?:loss|grad) | (?:loss|grad)\S{0,100}[\s=:]{1,100}nan
    | No\ space\ left | Stale\ file\ handle | Input/output\ error
    """,
    re.VERBOSE | re.IGNORECASE,
)


def kernel(text: str) -> bool:
    """Say whether a line of the kernel's log matters."""
    return _KERNEL.search(text) is not None


def service(text: str) -> bool:
    """Say whether a line of a service's log matters."""
    return _SERVICE.search(text) is not None


def rank(text: str) -> bool:
    """Say whether a line of a training process's log matters."""
    return _RANK.search(text) is not None
