"""Print a one-time link, for somebody who has a shell on the server and no password."""  # noqa: N999 - what people type

from argparse import ArgumentParser
from datetime import UTC, datetime, timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from controlplane.access import actions, queries
from controlplane.domain.errors import MiddlewatchError


class Command(BaseCommand):
    help = "Print a link that signs a person in once."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")
        parser.add_argument("--minutes", type=float, default=actions.LINK_LIFE.total_seconds() / 60)

    def handle(self, *_args: object, **options: Any) -> None:
        life = timedelta(minutes=options["minutes"])
        try:
            user = queries.person(options["name"])
            self.stdout.write(actions.make_sign_in_link(user, datetime.now(UTC), life=life))
        except MiddlewatchError as error:
            raise CommandError(str(error)) from error
