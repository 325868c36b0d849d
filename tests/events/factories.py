"""Batches as they come out of the decoder."""

from middlewatch_wire import AgentIdentity, Batch, Decoded, decode_batch, encode_batch, make_event

MACHINE = {"machine_id": "m1", "board_serial": "b1"}


def step(seq, *, run="demo", number=None, **data):
    return make_event("rank.step", at_ms=1000 * seq, seq=seq, run=run, attempt=1, rank=0, step=number or seq, **data)


def beat(seq):
    return make_event("node.heartbeat", at_ms=1000 * seq, seq=seq, uptime_s=5.0 * seq)


def hello(seq, **hardware):
    return make_event("node.hello", at_ms=1000 * seq, seq=seq, hardware=hardware or MACHINE)


def batch(*events, node="n01", incarnation="i1") -> Decoded:
    agent = AgentIdentity(node=node, incarnation=incarnation)
    return decode_batch(encode_batch(Batch(agent=agent, sent_at_ms=1, events=list(events))))
