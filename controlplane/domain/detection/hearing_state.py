"""How well we hear one node: its clock, its lag, its readers and its log."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Hearing:
    """What a node's own words say about how far its words can be trusted.

    `offsets_ms` are receipt minus the sender's stamp of single heartbeats, oldest
    first. `deaf` maps a reader to when we first heard that it reads nothing, `gaps` a
    source of its log to when lines before it were lost; both by our clock in seconds.
    """

    offsets_ms: list[int] = field(default_factory=list)
    beat_ms: int = -1
    sampled_ms: int = -1
    deaf: dict[str, float] = field(default_factory=dict)
    gaps: dict[str, float] = field(default_factory=dict)
    lag_s: float = 0.0
    lagging_since: float | None = None
    dropped: int = 0
    dropped_at: float | None = None
    minute: int = 0
    lines: int = 0
    flood_at: float | None = None
