"""The environment, typed and read once.

Every variable that the control plane listens to stands here, with its default.
A wrong value stops the program at boot with all errors listed, not at 3 am
with the first one met.
"""

from functools import cache
from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class Environment(BaseSettings):
    """Settings that differ between installations."""

    model_config = SettingsConfigDict(extra="ignore")

    database_url: str = Field(default="", description="postgresql://user:password@host:port/name")
    redis_url: str = Field(default="", description="redis://host:port/0 or unix:///path?db=0")
    middlewatch_home: Path = Field(default=Path("var"), description="data folder of `make serve`")
    middlewatch_secret_key: str = Field(default="", description="signs sessions and links")
    middlewatch_base_url: str = Field(default="http://127.0.0.1:8000", description="address people open")
    middlewatch_allowed_hosts: str = Field(default="*", description="comma-separated host names")
    middlewatch_debug: bool = False


@cache
def environment() -> Environment:
    """Return the environment, read on the first call."""
    return Environment()
