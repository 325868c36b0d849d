"""Train a small transformer with DDP on gloo, watched by Middlewatch.

The whole of what a training loop needs is here: `hooks.attach()`, one line per
step, a checkpoint now and then, and a load at the start. Run alone it trains one
rank and resumes from the newest complete checkpoint of `--checkpoints`; under the
launcher every rank finds its place in the environment. The data is a made-up
language that depends on seed, rank and step only, so a resumed run sees what the
lost one would have seen.

    python examples/tiny_transformer.py --steps 50
"""

import argparse
import time

import torch
import torch.distributed as dist
from middlewatch_agent import hooks
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import clip_grad_norm_

VOCABULARY = 64


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=0, help="stop after so many steps (0: train for ever)")
    parser.add_argument("--step-s", type=float, default=0.0, help="make each step last at least this long")
    parser.add_argument("--checkpoint-every", type=int, default=20, help="steps between checkpoints")
    parser.add_argument("--evaluate-every", type=int, default=0, help="steps between evaluations (0: never)")
    parser.add_argument("--checkpoints", help="folder for checkpoints when no launcher names one")
    parser.add_argument("--keep", type=int, default=3, help="complete checkpoints that stay")
    parser.add_argument("--batch", type=int, default=8, help="sequences per rank and step")
    parser.add_argument("--length", type=int, default=64, help="tokens per sequence")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


class Block(nn.Module):
    def __init__(self, width: int, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        qkv = self.qkv(self.before_attention(x)).view(batch, length, 3, self.heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.before_mlp(x))


class Transformer(nn.Module):
    def __init__(self, width: int, layers: int, length: int) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(VOCABULARY, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width) for _ in range(layers)))
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.token(tokens) + self.place.weight[: tokens.shape[1]]
        return self.head(self.blocks(x))


def text(seed: int, rank: int, step: int, shape: tuple[int, int]) -> Tensor:
    """Sentences in which each token mostly follows from the one before."""
    chance = torch.Generator().manual_seed((seed * 1_000_003 + rank) * 1_000_003 + step)
    surprise = torch.rand(shape, generator=chance) < 0.1
    words = torch.randint(VOCABULARY, shape, generator=chance)
    for place in range(1, shape[1]):
        follows = (words[:, place - 1] * 5 + 7) % VOCABULARY
        words[:, place] = torch.where(surprise[:, place], words[:, place], follows)
    return words


def loss_of(model: nn.Module, tokens: Tensor) -> Tensor:
    guess = model(tokens[:, :-1])
    return functional.cross_entropy(guess.flatten(0, 1), tokens[:, 1:].flatten())


def evaluate(model: nn.Module, watch: hooks.Watch, args: argparse.Namespace, batches: int = 8) -> None:
    with watch.phase("eval", total=batches, unit="batches") as phase, torch.no_grad():
        for done in range(batches):
            loss_of(model, text(args.seed, 10_000 + watch.place.rank, done, (args.batch, args.length)))
            phase.progress(done + 1)


def main() -> None:
    args = arguments()
    watch = hooks.attach()
    rank, world = watch.place.rank, watch.place.world_size
    torch.set_num_threads(1)

    with watch.phase("rendezvous"):
        dist.init_process_group("gloo", rank=rank, world_size=world, store=None if world > 1 else dist.HashStore())

    torch.manual_seed(args.seed)
    model = Transformer(args.width, args.layers, args.length)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, betas=(0.9, 0.95))
    shift = torch.zeros((), dtype=torch.int64)  # batches left out so far; saved, so that a restart keeps it
    state = {"model": model, "optimizer": optimizer, "shift": shift}

    watch.checkpoints.use(args.checkpoints, keep=args.keep)
    step = watch.checkpoints.load(state)
    ddp = watch.ddp(DistributedDataParallel(model))

    while not args.steps or step < args.steps:
        began = time.monotonic()
        with watch.data():
            shift += watch.place.skips_at(step + 1)
            tokens = text(args.seed, rank, step + int(shift), (args.batch, args.length))
        optimizer.zero_grad()
        loss = loss_of(ddp, tokens)
        loss.backward()
        norm = clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        time.sleep(max(0.0, args.step_s - (time.monotonic() - began)))
        step += 1
        watch.step(step, loss=loss.item(), grad_norm=norm.item(), lr=args.lr, tokens=world * args.batch * args.length)
        if rank == 0 and step % 10 == 0:
            print(f"step {step}  loss {loss.item():.3f}", flush=True)
        if watch.stop_wanted():
            break
        if watch.save_wanted() or step % args.checkpoint_every == 0:
            watch.checkpoints.async_save(state, step)
        if args.evaluate_every and step % args.evaluate_every == 0:
            evaluate(model, watch, args)

    watch.checkpoints.save(state, step)
    hooks.leave(watch)


if __name__ == "__main__":
    main()
