"""Refuse to boot a serving process that lacks what it needs, with one readable message and no traceback."""

from controlplane.settings.env import SettingsError, environment, require_fit_to_serve


def refuse_unfit() -> None:
    """End the program when the environment is not fit to serve; web, worker and beat call this first."""
    try:
        require_fit_to_serve(environment())
    except SettingsError as error:
        raise SystemExit(str(error)) from None
