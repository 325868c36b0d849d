"""Messages, transports and rules in words, and the forms that make them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from controlplane.domain.access.policy import least_role
from controlplane.domain.notify.rules import SEVERITIES, Takes
from controlplane.notify.kinds import KINDS, SECURITY
from controlplane.notify.queries import Told, ToldBy
from controlplane.web.present.buttons import May
from controlplane.web.present.words import Badge, sentence

MESSAGE = {
    "pending": Badge("clock", "Gathering", "quiet"),
    "sending": Badge("up", "Being sent", "accent"),
    "failed": Badge("undo", "Tried again", "warn"),
    "delivered": Badge("check", "Delivered", "good"),
    "given_up": Badge("cross", "Given up", "bad"),
    "suppressed": Badge("minus", "Not needed", "quiet"),
}
KIND = {"call": "told", "acknowledged": "told that it is acknowledged", "ended": "told that it is over", "test": "test"}
STEPS_OFFERED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One message about an incident."""

    at: datetime
    badge: Badge
    words: str
    proof: str


def line(one: ToldBy) -> Line:
    """Say who was told, by which step of which rule, and what proves it."""
    by = f" by step {one.step} of rule {one.rule}" if one.rule else ""
    return Line(
        at=one.at, badge=MESSAGE[one.state], words=f"{one.by}: {KIND.get(one.kind, one.kind)}{by}",
        proof=one.proof if one.state == "delivered" else one.why,
    )  # fmt: skip


def gap(told: Told, unready: str) -> str:
    """Say why nobody was told, where that is so."""
    if not told.called:
        return "Nobody had to be told."
    if told.messages:
        return ""
    return (unready or "No rule wanted this call.") if told.nobody else "Somebody is about to be told."


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """One field of a form."""

    name: str
    label: str
    kind: str = "text"
    value: str = ""
    help: str = ""
    needed: bool = False
    options: Sequence[tuple[str, str]] = ()
    chosen: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A form; `needs` names the role that is missing, empty when nothing is."""

    do: str
    title: str
    button: str
    inputs: Sequence[Input]
    about: str = ""
    needs: str = ""
    hidden: Mapping[str, str] = field(default_factory=dict)
    open: bool = False

    @property
    def id(self) -> str:
        """Name of the form in its page."""
        return "-".join((self.do, *self.hidden.values()))


def transport_forms(people: Sequence[str], may: May) -> list[Form]:
    """Offer a form for each kind of transport."""
    return [_transport_form(kind, people, may) for kind in KINDS]


def _transport_form(kind: str, people: Sequence[str], may: May) -> Form:
    asked = [
        Input(
            name=one.name, label=one.label, kind="password" if one.secret else "text", value=one.default,
            help=one.help, needed=one.needed and not one.default,
        ) if one.name != "security" else _choice("security", one.label, SECURITY)
        for one in KINDS[kind].fields
    ]  # fmt: skip
    name = Input(name="name", label="Name", help="as ana’s telephone", needed=True)
    person = Input(
        name="person", label="Whose it is", kind="select",
        options=[("", "nobody’s alone"), *((one, one) for one in people)],
        help="they acknowledge by the link in the message without signing in; others sign in first",
    )  # fmt: skip
    return Form(
        do="add-transport", title=KINDS[kind].title, button="Add", inputs=[name, *asked, person],
        needs=needs("manage_notifications", may), hidden={"kind": kind},
    )  # fmt: skip


def rule_form(transports: Sequence[tuple[str, str]], may: May) -> Form:
    """Offer to make a rule of up to three steps."""
    asked = [
        Input(name="name", label="Name", help="as nights", needed=True),
        _choice("severity", "From severity", tuple(reversed(SEVERITIES))),
        _choice("takes", "For", tuple(Takes), ("pages (loud)", "notes (quiet)", "both")),
        Input(name="runs", label="Runs", help="names with commas; empty for all, the fleet included"),
        Input(name="classes", label="Classes", help="as hang, crash; empty for all"),
        Input(name="hours", label="Hours", help="as Mon-Fri 22:00-06:00, Sat-Sun 00:00-24:00; empty for all"),
        Input(name="time_zone", label="Time zone", value="UTC", help="as Europe/Berlin"),
        Input(name="remind_min", label="Remind after", kind="number", value="0",
              help="minutes after an acknowledgement, if it is still open; 0 for never"),
    ]  # fmt: skip
    for step in range(1, STEPS_OFFERED + 1):
        asked += _step_inputs(step, transports)
    return Form(
        do="add-rule", title="Add a rule", button="Add the rule", inputs=asked,
        needs=needs("manage_notifications", may),
        about="Each step tells its transports; the next one follows unless somebody acknowledges in time.",
    )  # fmt: skip


def _step_inputs(step: int, transports: Sequence[tuple[str, str]]) -> list[Input]:
    label = "First, tell" if step == 1 else f"Step {step}: then tell"
    after = Input(
        name=f"after_{step}", label=f"Step {step}: minutes before it", kind="number", value="0" if step == 1 else "10"
    )
    return [after, Input(name=f"to_{step}", label=label, kind="checkboxes", options=transports)]


def window_form(may: May) -> Form:
    """Offer to keep still during maintenance."""
    return Form(
        do="open-window", title="Plan maintenance", button="Plan", needs=needs("maintain", may), inputs=[
            Input(name="runs", label="Runs", help="names with commas; empty for everything"),
            Input(name="begins_at", label="Begins", kind="datetime-local", help="UTC; empty for now"),
            Input(name="minutes", label="Minutes", kind="number", value="60", needed=True),
            Input(name="why", label="Why"),
        ], about="Nobody is told of anything until it ends; what is open then is told then.",
    )  # fmt: skip


def silence_form(may: May) -> Form:
    """Offer to wake nobody for a while."""
    return Form(
        do="silence", title="Wake nobody", button="Silence", needs=needs("silence", may), inputs=[
            Input(name="run", label="Run", help="empty for everything"),
            Input(name="minutes", label="Minutes", kind="number", value="60", needed=True),
        ], about="Pages become notes until it ends by itself; incidents are answered as ever.",
    )  # fmt: skip


def dead_man_form(may: May) -> Form:
    """Offer to give a sign of life to an outside address."""
    return Form(
        do="add-sign", title="Add an address", button="Add", needs=needs("manage_notifications", may), inputs=[
            Input(name="name", label="Name", needed=True),
            Input(name="url", label="Address", kind="password", help="https://… of a service that watches cron jobs",
                  needed=True),
            Input(name="every_s", label="Every so many seconds", kind="number", value="30", needed=True),
        ],
    )  # fmt: skip


def typed(form: Form, given: Mapping[str, Sequence[str]]) -> Form:
    """Return a form as it was sent, without its secrets, so that nobody types it twice."""
    if given.get("do") != [form.do] or any(given.get(name) != [value] for name, value in form.hidden.items()):
        return form
    kept = [one if one.kind == "password" else _filled(one, list(given.get(one.name, []))) for one in form.inputs]
    return replace(form, inputs=kept, open=True)


def _filled(one: Input, given: list[str]) -> Input:
    return replace(one, value=given[0] if given else "", chosen=frozenset(given))


def _choice(name: str, label: str, values: Sequence[str], words: Sequence[str] = ()) -> Input:
    shown = words or [sentence(value) for value in values]
    return Input(name=name, label=label, kind="select", options=list(zip(values, shown, strict=True)))


def needs(act: str, may: May) -> str:
    """Name the role that an act needs; empty for who has it."""
    return "" if may(act) else f"needs the role {least_role(act)}"
