"""A report and a comparison in words, for a terminal."""

from collections.abc import Iterator, Mapping
from typing import Any

HIDDEN = frozenset({"t", "do", "incident", "proposed", "run", "node"})


def lines(report: Mapping[str, Any]) -> Iterator[str]:
    """Tell a report: incidents, actions, accounting, fleet."""
    yield f"{report['trace']}: {len(report['incidents'])} incidents, {len(report['actions'])} actions"
    for place, incident in enumerate(report["incidents"]):
        yield from _incident(place, incident)
    for act in report["actions"]:
        yield f"  {clock(act['t'])}  {_act(act)}"
    account = report["accounting"]
    yield f"  goodput {account['goodput']:.1%} of {account['elapsed_s']:,.0f} s; " + ", ".join(
        f"{label} {seconds:,.0f} s" for label, seconds in account["by_label_s"].items()
    )
    apart = {name: node for name, node in report["fleet"].items() if node["state"] not in ("healthy", "spare")}
    if apart:
        yield "  " + ", ".join(f"{name} is {node['state']}" for name, node in apart.items())


def _incident(place: int, incident: Mapping[str, Any]) -> Iterator[str]:
    about = f" of {incident['run']}" if incident["run"] else ""
    ended = "still open" if incident["resolved_t"] is None else f"resolved {clock(incident['resolved_t'])}"
    yield f"  [{place}] {clock(incident['opened_t'])}  {incident['class']}{about}, {incident['severity']}, {ended}"
    yield f"        {incident['title']}"
    if incident["blamed"]:
        yield "        blamed: " + ", ".join(
            f"{one['entity']} (score {one['score']}, margin {one['margin']})" for one in incident["blamed"]
        )
    for line in incident["evidence"]:
        yield f"        {line['weight']:+g} {line['text']}"


def _act(act: Mapping[str, Any]) -> str:
    about = act.get("node") or act.get("run") or "the fleet"
    rest = ", ".join(f"{name} {value}" for name, value in act.items() if name not in HIDDEN)
    words = f"{'propose to ' if act.get('proposed') else ''}{act['do']} {about}"
    return f"{words} ({rest})" if rest else words


def difference_lines(differences: Mapping[str, Any], here: str, there: str) -> Iterator[str]:
    """Tell a comparison of the report of `here` with that of `there`."""
    if not any(differences.values()):
        yield "Nothing differs."
        return
    yield f"- only or so in {there}, + only or so in {here}"
    for one in differences["incidents"]:
        yield from _incident_difference(one)
    for pair in differences["actions"]:
        for sign, act in (("-", pair["there"]), ("+", pair["here"])):
            if act is not None:
                yield f"{sign} {clock(act['t'])}  {_act(act)}"
    for part in ("accounting", "fleet"):
        for name, pair in differences[part].items():
            yield f"  {name}: {pair['there']} there, {pair['here']} here"


def _incident_difference(one: Mapping[str, Any]) -> Iterator[str]:
    named = f"{one['class']}" + (f" of {one['run']}" if one["run"] else "")
    if "only_here" in one or "only_there" in one:
        yield f"{'+' if 'only_here' in one else '-'} {clock(one['opened_t'])}  {named}: {one['title']}"
        return
    for name, pair in one.items():
        if isinstance(pair, dict):
            yield f"  {named}, {name}: {pair['there']} there, {pair['here']} here"


def clock(t: float) -> str:
    """Write a time of the trace as hours, minutes and seconds."""
    minutes, seconds = divmod(t, 60)
    hours, minutes = divmod(int(minutes), 60)
    return f"{hours:02d}:{minutes:02d}:{seconds:04.1f}"
