"""Print a new bearer token for the REST API."""  # noqa: N999 - what people type

from argparse import ArgumentParser
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from controlplane.access import actions, queries
from controlplane.domain.errors import MiddlewatchError


class Command(BaseCommand):
    help = "Print a new API token of a person; it is shown this once."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("person")
        parser.add_argument("name", help="what the token is for")

    def handle(self, *_args: object, **options: Any) -> None:
        try:
            user = queries.person(options["person"])
            self.stdout.write(actions.make_api_token(user, options["name"], datetime.now(UTC)))
        except MiddlewatchError as error:
            raise CommandError(str(error)) from error
