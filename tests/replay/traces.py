"""Small traces for tests."""

import json

RUN = {
    "name": "demo", "world_size": 2, "nodes": ["n0", "n1"], "spares": ["s0"], "gpus_per_node": 1, "step_s": 10,
}  # fmt: skip
HEADER = {
    "trace": 1, "name": "small", "runs": [RUN],
    "nodes": [{"name": name, "labels": {"rack": "r0"}, "gpus": []} for name in ("n0", "n1", "s0", "head")],
    "policy": {"mode": "act"},
}  # fmt: skip


def write(path, *lines, header=HEADER, end=60):
    """Write a trace; a line may be text, written as it is."""
    told = [header, *lines, *([{"t": end, "end": True}] if end is not None else [])]
    text = [line if isinstance(line, str) else json.dumps(line) for line in told]
    path.write_text("\n".join(text) + "\n")
    return path


def event(t, node, kind, /, *, at_ms=None, attempt=None, rank=None, run="demo", **data):
    """Give the line of an event of the run, or of a node when `run` is None."""
    said = {"at_ms": round(t * 1000) if at_ms is None else at_ms, "kind": kind, "data": data}
    named = {"run": run, "attempt": attempt, "rank": rank}
    said |= {name: value for name, value in named.items() if value is not None}
    return {"t": t, "node": node, "event": said}


def beats(*nodes, until, t=0, every_s=5):
    return {"t": t, "heartbeats": {"nodes": list(nodes), "every_s": every_s, "until": until}}


def steps(first, last, /, *, t=0, every_s=10, attempt=1, rank=0, jitter=0.0):
    declared = {"run": "demo", "attempt": attempt, "rank": rank, "first": first, "last": last, "every_s": every_s,
                "duration_ms": every_s * 1000, "jitter": jitter}  # fmt: skip
    return {"t": t, "steps": declared}


def launch(t=0.5, attempt=1, nodes=("n0", "n1"), step=0):
    return [
        event(t, "head", "attempt.started", attempt=attempt, nodes=list(nodes), world_size=2, scheduler="slurm",
              job_id=str(attempt), resume={"step": step}),
        *(event(t + 1, node, "rank.started", attempt=attempt, rank=rank, node=node, local_rank=0, pid=1)
          for rank, node in enumerate(nodes)),
    ]  # fmt: skip
