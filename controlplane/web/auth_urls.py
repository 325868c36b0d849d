"""Addresses of signing in and out, and of the page about people."""

from django.urls import path

from controlplane.web import auth, people

app_name = "access"

urlpatterns = [
    path("sign-in/", auth.sign_in, name="sign-in"),
    path("sign-in/link/<str:token>/", auth.link, name="link"),
    path("sign-out/", auth.sign_out, name="sign-out"),
    path("password/", auth.password, name="password"),
    path("settings/people/", people.index, name="people"),
    path("settings/people/<str:name>/", people.change, name="person"),
]
