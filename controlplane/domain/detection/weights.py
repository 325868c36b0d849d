"""How much each kind of evidence counts, in log-odds (methods 7 and 11.13).

Positive weights speak for an entity as the first cause, negative ones say that it
only suffered a consequence. What a process did to itself or had done to it is laid
on the rank; what only its machine can explain is laid on the node.
"""

NODE_DOWN = 5.0
NODE_SILENT = 4.0
NODE_DOUBT = 2.0
RANK_SILENT = 1.0

FATAL_SIGNAL = 4.0
EXCEPTION = 4.0
KILLED = 3.0
CUDA_ERROR = 3.0
FIRST_TO_EXIT = 1.0
LEFT_EARLY = 3.0

TIME_OUT = -1.0
PEER_RESET = -1.5
ABORTED = -2.0
TERMINATED = -3.0

PROCESS_STOPPED = 4.0
PROCESS_STUCK = 3.0
NO_ANSWER = 3.0
MINORITY = 3.0
BEHIND = 3.0
ABSENT = 3.5
REBOOTED = 3.0
LONE_SLOW_PROBE = 2.0
STORAGE = 4.0
NETWORK_DOWN = 4.0
NETWORK_FLAPS = 2.0

COMMON_EXCEPTION = 6.0

ALONE_NOT_FINITE = 3.0
NUMERICS = 2.0
EARLY_SIGN = 1.0

SLOW_RANK = 4.0
SLOW_DATA = 4.0
SAME_STEP = 6.0
POISON = 6.0
"""What repeats on different machines outweighs what one rank of the last attempt showed."""
