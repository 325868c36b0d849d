"""What would clear a suspect, in words: a verdict that nothing could overturn is a prejudice."""

from controlplane.domain.chronicle.words import place

_WAYS = {
    "node": "the same failure in an attempt without {it}, or a burn-in of 24 h without an error",
    "gpu": "a day of stress on {it} without an error, or the same failure in an attempt without it",
    "rank": "the same failure at another rank while {it} runs on",
    "network": "a pair-wise transfer test over {it} at the usual rate",
    "domain": "nodes of {it} that fail alone, or nodes elsewhere that fell silent in the same minute",
    "storage": "write probes of two nodes that answer within 5 s while the failure goes on",
    "workload": "the same step passed by the same code and data on other nodes",
    "data": "the same batches passed from another checkpoint",
    "checkpoint": "a restore of {it} on other nodes that trains 20 steps",
    "platform": "the scheduler and a node elsewhere saying that all is well there",
}


def clears(entity: str) -> str:
    """Say in one clause what would take the suspicion from an entity."""
    kind = entity.partition(":")[0]
    return _WAYS.get(kind, "the same failure in an attempt without {it}").format(it=place(entity))
