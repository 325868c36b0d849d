"""Seeded faults of 64 ranks (methods 7): a check of sanity, not a proof.

One culprit; one line in ten is lost, victims raise CUDA errors of their own, one
clock in fifty is wrong, the flight recorder is there in 70 % and right in 95 % of
those, the step lag in 60 %.
"""

import random

from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.diagnosis.diagnose import diagnose
from controlplane.domain.findings import Evidence, Finding, Stage

NOW = 1_000.0
RANKS = 64
PER_NODE = 8
TRIALS = 300


def node(rank):
    return f"n{rank // PER_NODE}"


def one_fault(chance):
    """Give the culprit and what is told of it and of its victims."""
    culprit, told = chance.randrange(RANKS), []

    def tell(entity, weight, kind, at, bound_s=1.0):
        if chance.random() > 0.1:
            at += chance.choice((-20.0, 20.0)) if chance.random() < 0.02 else 0.0
            told.append(Evidence(at=at, entity=entity, weight=weight, text=kind, kind=kind, bound_s=bound_s))

    if chance.random() < 0.6:
        tell(f"node:{node(culprit)}", 6.0, "xid 79", 0.0)
    tell(f"rank:{culprit}", 3.0, "cuda", 0.0)
    seen = culprit if chance.random() < 0.95 else chance.randrange(RANKS)
    if chance.random() < 0.7:
        tell(f"node:{node(seen)}", 3.5, "absent", 60.0, None)
    if chance.random() < 0.6:
        tell(f"node:{node(culprit)}", 3.0, "behind", 60.0, None)
    for victim in set(range(RANKS)) - {culprit}:
        after = chance.uniform(0.1, 1.5) if chance.random() < 0.15 else chance.uniform(1.5, 60.0)
        secondary = chance.random() < 0.1
        tell(f"rank:{victim}", *((3.0, "cuda") if secondary else (-1.0, "time-out")), after)
    return culprit, told


def judged(told):
    places = {str(rank): node(rank) for rank in range(RANKS)}
    crash = Finding(
        key="c", detector="D", klass="crash", stage=Stage.CONFIRMED, entity="run", began=0.0, at=0.0, run="demo",
        attempt=1, evidence=tuple(told), facts={"places": places},
    )  # fmt: skip
    return diagnose([crash], now=NOW, policy=RunPolicy())


def test_the_right_place_is_found_mostly_and_the_wrong_node_is_left_alone():
    chance, right, acted, well = random.Random(2026), 0, 0, 0
    for _ in range(TRIALS):
        culprit, told = one_fault(chance)
        found = judged(told)
        first = found.blamed[0].entity if found.blamed else ""
        right += first in (f"rank:{culprit}", f"node:{node(culprit)}")
        acted += found.act_on is not None
        well += found.act_on == node(culprit)
    assert right / TRIALS >= 0.85
    assert acted / TRIALS >= 0.5
    assert well / acted >= 0.98
