"""Keep what transports must not tell: encrypted with a key that is made from the installation's secret key.

Without that key a copy of the database speaks through nobody's account. After a change
of the secret key the secrets have to be given anew.
"""

import base64
import hashlib
import json
from collections.abc import Mapping

from cryptography.fernet import Fernet, InvalidToken
from django.conf import settings

from controlplane.domain.errors import Refused

_PURPOSE = b"middlewatch notify transports:"


def seal(values: Mapping[str, str]) -> str:
    """Encrypt values for the database."""
    return _box().encrypt(json.dumps(dict(values)).encode()).decode()


def unseal(sealed: str) -> dict[str, str]:
    """Decrypt what `seal` made.

    Raises:
        Refused: the secret key is another one by now.
    """
    try:
        opened: dict[str, str] = json.loads(_box().decrypt(sealed.encode()))
    except InvalidToken:
        raise Refused("MIDDLEWATCH_SECRET_KEY has changed since: give the secrets of this transport anew") from None
    return opened


def _box() -> Fernet:
    key = hashlib.sha256(_PURPOSE + settings.SECRET_KEY.encode()).digest()
    return Fernet(base64.urlsafe_b64encode(key))
