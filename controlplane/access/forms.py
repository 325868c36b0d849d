"""What people type to get in."""

from typing import TYPE_CHECKING

from django import forms
from django.contrib.auth.forms import SetPasswordForm
from django.http import QueryDict

from controlplane.access.models import Role, User

MAX_NAME = 150
MAX_PASSWORD = 4096


class SignInForm(forms.Form):
    """A name and a password."""

    name = forms.CharField(
        label="Name",
        max_length=MAX_NAME,
        widget=forms.TextInput(attrs={"autocomplete": "username", "autocapitalize": "none", "autofocus": True}),
    )
    password = forms.CharField(
        label="Password",
        max_length=MAX_PASSWORD,
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
    )


if TYPE_CHECKING:
    OwnPassword = SetPasswordForm[User]
else:
    OwnPassword = SetPasswordForm


class PasswordForm(OwnPassword):
    """A new password, twice."""

    def __init__(self, user: User, data: QueryDict | None = None) -> None:
        """Say it in our words."""
        super().__init__(user, data, label_suffix="")
        self.fields["new_password2"].label = "The same again"
        self.fields["new_password2"].help_text = ""


class PersonForm(forms.Form):
    """A new person."""

    name = forms.CharField(label="Name", max_length=MAX_NAME)
    role = forms.ChoiceField(label="Role", choices=Role.choices)
