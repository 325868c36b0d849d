"""The ways to reach somebody, one module each, and the table of them."""

from collections.abc import Mapping
from types import MappingProxyType

from controlplane.notify.letters import Send
from controlplane.notify.transports import email, others, pagerduty, slack, webhook

SENDERS: Mapping[str, Send] = MappingProxyType({
    "email": email.send,
    "webhook": webhook.send,
    "slack": slack.send,
    "pagerduty": pagerduty.send,
    "apprise": others.send,
})  # fmt: skip
