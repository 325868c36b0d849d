"""What the parts of a training state say about themselves, and how to make them loadable."""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import torch
from torch.nn import Module
from torch.optim import Optimizer

T = TypeVar("T")


def prime(state: Mapping[str, Any]) -> None:
    """Give optimizers that have not stepped yet their state, so that a load has tensors to fill.

    DCP loads into what is there; an optimizer's moments appear with its first step
    only, and without this they would be left out in silence. A step of length zero
    along zero gradients makes them and moves nothing.
    """
    for optimizer in _of(state, Optimizer):
        if not optimizer.state:
            _step_nowhere(optimizer)


def _step_nowhere(optimizer: Optimizer) -> None:
    rates = [group["lr"] for group in optimizer.param_groups]
    for group in optimizer.param_groups:
        group["lr"] = torch.zeros_like(group["lr"]) if isinstance(group["lr"], torch.Tensor) else 0.0
        for parameter in group["params"]:
            if parameter.requires_grad:
                parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group["lr"] = rate
    optimizer.zero_grad(set_to_none=True)


def describe(state: Mapping[str, Any]) -> dict[str, Any]:
    """The facts of a `rank.resume` event that the state itself tells."""
    facts: dict[str, Any] = {"rng_digest": rng_digest()}
    modules = list(_of(state, Module))
    if modules:
        facts["parameters"] = sum(parameter.numel() for module in modules for parameter in module.parameters())
    for optimizer in _of(state, Optimizer):
        group = optimizer.param_groups[0]
        facts["lr"] = float(group["lr"])
        if "betas" in group:
            facts["betas"] = [float(beta) for beta in group["betas"]]
        facts["optimizer_step"] = _optimizer_step(optimizer)
        break
    return facts


def rng_digest() -> str:
    """A short digest of torch's generator on the host."""
    return hashlib.blake2s(bytes(torch.get_rng_state().tolist()), digest_size=8).hexdigest()


def _optimizer_step(optimizer: Optimizer) -> int:
    steps = (entry["step"] for entry in optimizer.state.values() if "step" in entry)
    return max((int(step) for step in steps), default=0)


def _of(state: Mapping[str, Any], kind: type[T]) -> Iterator[T]:
    return (part for part in state.values() if isinstance(part, kind))
