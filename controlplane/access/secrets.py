"""Make secrets and the digests under which they are stored.

The secrets are long and random, so one round of SHA-256 keeps them safe: there
is nothing to guess, and a stolen table signs nobody in.
"""

import hashlib
import secrets

_TOKEN_BYTES = 32
_PASSWORD_BYTES = 12


def new_token() -> str:
    """Return a fresh secret for a link or an API token, safe inside a URL."""
    return secrets.token_urlsafe(_TOKEN_BYTES)


def new_password() -> str:
    """Return a fresh one-time password, short enough to be typed."""
    return secrets.token_urlsafe(_PASSWORD_BYTES)


def digest(secret: str) -> str:
    """Return what is stored instead of `secret`."""
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()
