"""People, their roles, and the secrets that let them in."""

from django.contrib.auth.models import AbstractUser
from django.db import models


class Role(models.TextChoices):
    """What a person may do; each role includes the ones before it."""

    VIEWER = "viewer"
    RESPONDER = "responder"
    OPERATOR = "operator"
    ADMIN = "admin"


class User(AbstractUser):
    """A person who signs in."""

    role = models.CharField(max_length=16, choices=Role, default=Role.VIEWER)
    must_change_password = models.BooleanField(
        default=False, help_text="signed up with a one-time password and has not chosen an own one yet"
    )


class SignInLink(models.Model):
    """A one-time link that signs a person in; only its hash is stored."""

    user = models.ForeignKey(User, on_delete=models.CASCADE)
    digest = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)


class ActLink(models.Model):
    """A one-time link in a message that does one thing for the person it was sent to; only its hash is stored."""

    digest = models.CharField(max_length=64, unique=True)
    purpose = models.CharField(max_length=32)
    subject = models.CharField(max_length=100, db_index=True, help_text="kind and number, as incident:12")
    person = models.CharField(max_length=150, blank=True, help_text="whom it was sent to; empty for who is signed in")
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)


class SignInTry(models.Model):
    """One try to sign in with a password; counted to slow down guessing."""

    name_digest = models.CharField(
        max_length=64, help_text="hash of the name typed, which may be a password by mistake"
    )
    address = models.CharField(max_length=64)
    at = models.DateTimeField()

    class Meta:
        indexes = [
            models.Index(fields=["name_digest", "at"], name="sign_in_try_name"),
            models.Index(fields=["address", "at"], name="sign_in_try_address"),
        ]


class ApiToken(models.Model):
    """A bearer token for the operators' REST API; only its hash is stored."""

    user = models.ForeignKey(User, on_delete=models.CASCADE)
    name = models.CharField(max_length=100)
    digest = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True)
