"""Check the arithmetic of a launch: parameters, batch, ranks, the step it resumes at (D-16).

Each check speaks only when everything that it compares was declared or measured, and
what it says is advice: an attempt that trains is not stopped for it.
"""

from collections.abc import Callable, Iterator
from math import isclose

from controlplane.domain.detection.launch_state import Launched, Standing
from controlplane.domain.detection.launch_words import KLASS, over
from controlplane.domain.detection.policy import RunPolicy
from controlplane.domain.detection.state import RunState
from controlplane.domain.findings import Evidence, Finding, Stage

DETECTOR = "D-16"
TOLERANCE = 0.03
"""Counts differ a little by what they leave out, such as tied embeddings."""


def look(state: RunState, _policy: RunPolicy, now: float) -> list[Finding]:
    """Give the mismatches of the present launch as one finding, or take them back."""
    launched, attempt = state.launch.now, state.attempt
    if attempt is None or attempt.number != launched.attempt:
        return []
    wrong = [line for check in CHECKS for line in check(launched)]
    standing = state.launch.mismatch
    if not wrong:
        state.launch.mismatch = None
        why = f"nothing of the launch of run {state.run} is known to be wrong any more"
        return [] if standing is None else [over(state.run, standing, DETECTOR, why, now)]
    if standing is None:
        standing = Standing(key=f"{state.run}/launch/{launched.attempt}", began=now)
        state.launch.mismatch = standing
    return [_finding(state.run, launched, standing, wrong)]


def _finding(run: str, launched: Launched, standing: Standing, wrong: list[str]) -> Finding:
    lines = tuple(Evidence(at=launched.at, entity="workload", weight=0.0, text=text, kind="launch") for text in wrong)
    return Finding(
        key=standing.key,
        detector=DETECTOR,
        klass=KLASS,
        stage=Stage.SUSPECT,
        entity="workload",
        began=launched.at,
        at=standing.began,
        run=run,
        severity="warning",
        sentence=f"the launch of run {run} does not add up: " + "; ".join(wrong),
        evidence=lines,
        facts={"kind": "launch", "launched": launched.attempt, "fingerprint": "launch", "cause": ""},
    )


def _parameters(launched: Launched) -> Iterator[str]:
    """Compare the declared number of parameters with what the ranks hold together.

    A rank may hold a shard; one place of the model is then enough times over.
    """
    declared, held = launched.sizes.get("count"), _held(launched)
    if declared is not None and held is not None and not _same_model(declared, held, launched.world_size):
        yield f"{_big(declared)} parameters were declared and {_big(held)} counted"


def _held(launched: Launched) -> float | None:
    """Add up the places of the model, None until every place was counted."""
    of_place: dict[str, float] = {}
    for rank, count in launched.counts.items():
        place = launched.places.get(rank, "0/0")
        of_place[place] = max(count, of_place.get(place, 0.0))
    wanted = {"0/0", *launched.places.values()}
    return sum(of_place.values()) if of_place and wanted <= of_place.keys() else None


def _same_model(declared: float, held: float, world_size: int) -> bool:
    shards = round(declared / held)
    sharded = 1 < shards <= world_size and world_size % shards == 0
    return isclose(declared, held * (shards if sharded else 1), rel_tol=TOLERANCE)


def _big(count: float) -> str:
    for unit, size in (("billion", 1e9), ("million", 1e6)):
        if count >= size:
            return f"{count / size:.4g} {unit}"
    return f"{count:.0f}"


def _replicas(launched: Launched) -> float | None:
    """Give the number of copies of the model: declared, or by the ranks once they have met to resume."""
    if "dp" in launched.sizes:
        return launched.sizes["dp"]
    return float(launched.copies) if launched.copies and launched.resumed_rank is not None else None


def _batch(launched: Launched) -> Iterator[str]:
    whole, micro, copies = launched.sizes.get("global_batch"), launched.sizes.get("micro_batch"), _replicas(launched)
    if whole is not None and micro is not None and copies and whole % (micro * copies):
        yield (
            f"a global batch of {whole:g} is no multiple of a micro batch of {micro:g} "
            f"times {copies:g} data-parallel copies"
        )


def _groups(launched: Launched) -> Iterator[str]:
    sizes = launched.sizes
    if launched.world_size and {"dp", "tp", "pp"} <= sizes.keys():
        product = sizes["dp"] * sizes["tp"] * sizes["pp"]
        if product != launched.world_size:
            yield f"dp {sizes['dp']:g} x tp {sizes['tp']:g} x pp {sizes['pp']:g} is not the {launched.world_size} ranks"


def _machines(launched: Launched) -> Iterator[str]:
    sizes, ranks, nodes = launched.sizes, launched.world_size, launched.nodes
    if nodes and "nodes" in sizes and sizes["nodes"] != nodes:
        yield f"{sizes['nodes']:g} nodes were declared and {nodes} are in the attempt"
    if nodes and ranks and "gpus_per_node" in sizes and ranks != nodes * sizes["gpus_per_node"]:
        yield f"{nodes} nodes with {sizes['gpus_per_node']:g} GPUs each do not make {ranks} ranks"
    if ranks and launched.resumed_world is not None and launched.resumed_world != ranks:
        yield f"{ranks} ranks were launched and rank {launched.resumed_rank} counts {launched.resumed_world}"


def _heads(launched: Launched) -> Iterator[str]:
    hidden, heads = launched.sizes.get("hidden"), launched.sizes.get("heads")
    if hidden is not None and heads is not None and hidden % heads:
        yield f"a hidden size of {hidden:g} is no multiple of {heads:g} heads"


def _resume(launched: Launched) -> Iterator[str]:
    wanted, found = launched.resume_step, launched.resumed_step
    if wanted is not None and found is not None and wanted != found:
        yield f"it was to resume from step {wanted} and rank {launched.resumed_rank} goes on from step {found}"


CHECKS: tuple[Callable[[Launched], Iterator[str]], ...] = (_parameters, _batch, _groups, _machines, _heads, _resume)
