"""Forget old messages: who was told a season ago interests nobody, and the tables must not grow for ever.

What is still open stays whole, however old: a thread is closed by a message that needs those before it.
"""

from datetime import datetime, timedelta

from django.db.models import QuerySet

from controlplane.notify.models import Call, Message, MessageState

AT_ONCE = 5_000
"""Rows of each kind that one look deletes; the next goes on."""
OVER = (MessageState.DELIVERED, MessageState.GIVEN_UP, MessageState.SUPPRESSED)


def prune(now: datetime, keep: timedelta) -> int:
    """Delete calls that ended, and messages that ended and tell of no call any more, before `now - keep`.

    Escalations and mentions go with their calls. Returns how many calls and messages went.
    """
    cut = now - keep
    calls = _oldest(Call.objects.filter(ended_at__lt=cut, fresh=False))
    Call.objects.filter(pk__in=calls).delete()
    messages = _oldest(Message.objects.filter(state__in=OVER, created_at__lt=cut, mentions=None))
    Message.objects.filter(pk__in=messages).delete()
    return len(calls) + len(messages)


def _oldest(rows: QuerySet[Call] | QuerySet[Message]) -> list[int]:
    return list(rows.order_by("pk").values_list("pk", flat=True)[:AT_ONCE])
