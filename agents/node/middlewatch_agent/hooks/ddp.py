"""Measure how long a rank waits for the gradients of the others.

Under DDP on gloo the backward pass hands buckets of gradients to all-reduces that
run beside it. When the last bucket is handed over, this rank has computed all it
had; from then until that bucket's all-reduce is done it waits. That time is what
is counted: it holds the transfer of the last bucket too, which is the same for all
ranks, so the rank that waits least is still the slow one. Under NCCL the future is
ready when the work is queued on the device, so this says nothing there: time the
collectives with `Watch.wait` after a synchronisation instead, or leave waiting out.
"""

from typing import TYPE_CHECKING

import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import GradBucket
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

if TYPE_CHECKING:
    from middlewatch_agent.hooks.watch import Watch


def measure(model: DistributedDataParallel, watch: "Watch") -> DistributedDataParallel:
    """Put a communication hook on `model` that averages as DDP does itself and counts the wait.

    DDP takes one hook only; a model with a hook of its own keeps it and is left alone.
    """
    group = model.process_group
    size = dist.get_world_size(group)

    def average(_state: object, bucket: GradBucket) -> Future[Tensor]:
        last, began = bucket.is_last(), watch.clock()
        work = dist.all_reduce(bucket.buffer().div_(size), group=group, async_op=True)

        def done(future: Future[list[Tensor]]) -> Tensor:
            if last:
                watch.waited(watch.clock() - began)
            return future.value()[0]

        averaged: Future[Tensor] = work.get_future().then(done)
        return averaged

    try:
        model.register_comm_hook(None, average)
    except RuntimeError:
        watch.faults += 1
    return model
