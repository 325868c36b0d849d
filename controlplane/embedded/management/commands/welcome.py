"""What a new installation needs to be told once: its administrator and a token for its first nodes.

A command of its own, because `serve` itself runs without a database.
"""

import json
from argparse import ArgumentParser
from datetime import UTC, datetime, timedelta
from typing import Any

from django.core.management.base import BaseCommand

from controlplane.access.actions import create_person, make_sign_in_link
from controlplane.access.models import Role, User
from controlplane.fleet.actions import create_enrolment_token
from controlplane.notify.queries import readiness

ADMINISTRATOR = "admin"
ENROLMENT_USES = 100
ENROLMENT_LIFE = timedelta(hours=1)


class Command(BaseCommand):
    help = "Create the administrator when nobody can sign in yet, and an enrolment token; print both as JSON."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--link", action="store_true", help="print a one-time sign-in link in any case")

    def handle(self, *_args: object, **options: Any) -> None:
        now = datetime.now(UTC)
        told = _first_administrator(now)
        if options["link"] and "link" not in told:
            told["link"] = make_sign_in_link(User.objects.get(username=ADMINISTRATOR), now)
        told["token"] = create_enrolment_token("serve", now, uses=ENROLMENT_USES, ttl=ENROLMENT_LIFE)
        told["nobody"] = readiness(now)
        self.stdout.write(json.dumps(told))


def _first_administrator(now: datetime) -> dict[str, str]:
    if User.objects.exists():
        return {}
    user, password = create_person(ADMINISTRATOR, Role.ADMIN, now)
    return {"name": user.username, "password": password, "link": make_sign_in_link(user, now)}
