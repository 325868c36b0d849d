"""Add a person from a shell, for the time before anybody can sign in."""

from argparse import ArgumentParser
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from controlplane.access import actions
from controlplane.access.models import Role
from controlplane.domain.errors import MiddlewatchError


class Command(BaseCommand):
    help = "Add a person and print their one-time password."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")
        parser.add_argument("--role", choices=Role.values, default=Role.VIEWER.value)

    def handle(self, *_args: object, **options: Any) -> None:
        try:
            _, password = actions.create_person(options["name"], options["role"], datetime.now(UTC))
        except MiddlewatchError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(password)
