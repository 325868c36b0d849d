"""Settings shared by every way of running the control plane."""

import warnings
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from controlplane.settings.env import environment
from controlplane.settings.logs import configure
from controlplane.settings.schedule import BEAT_SCHEDULE

ENV = environment()
ROOT = Path(__file__).resolve().parent.parent.parent

POOL = {"min_size": 0, "max_size": 12, "timeout": 5, "reconnect_timeout": 5, "max_idle": 120}
STANDSTILL_S = 10
"""A transaction that asks nothing for so long is ended by the database, and its locks go to those who wait.

No program of ours thinks for so long between two statements; one that was frozen does. A COPY of
ingest is a statement under way and never counts as standing still.
"""


def database(url: str) -> dict[str, object]:
    """Turn a postgresql:// address into Django's database settings.

    Connections come from a pool: under ASGI each request has its own thread,
    so connections kept by thread would be opened anew and pile up. Short
    time-outs let a process find its way back soon after the server was away.
    `options` of the address stand behind ours, and so win.
    """
    parts = urlsplit(url)
    options: dict[str, object] = dict(parse_qsl(parts.query))
    if "prepare_threshold" in options:  # psycopg counts with it; "none" prepares nothing, for a pooler in between
        given = str(options["prepare_threshold"])
        options["prepare_threshold"] = None if given == "none" else int(given)
    own = f"-c idle_in_transaction_session_timeout={STANDSTILL_S * 1000}"
    options["options"] = f"{own} {options.get('options', '')}".rstrip()
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.path.lstrip("/") or "middlewatch",
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": options.pop("host", None) or parts.hostname or "",
        "PORT": parts.port or "",
        "OPTIONS": {"connect_timeout": 5, "prepare_threshold": 5, "pool": dict(POOL), **options},
        "CONN_MAX_AGE": 0,
        "CONN_HEALTH_CHECKS": True,
    }


# Django refuses to sign anything while this is empty; serving processes refuse to boot (env.require_fit_to_serve).
SECRET_KEY = ENV.middlewatch_secret_key or ("only-for-development" if ENV.middlewatch_debug else "")
DEBUG = ENV.middlewatch_debug
ALLOWED_HOSTS = [name.strip() for name in ENV.middlewatch_allowed_hosts.split(",")]
BASE_URL = ENV.middlewatch_base_url
EVENT_RETENTION_DAYS = ENV.middlewatch_event_retention_days
MESSAGE_RETENTION_DAYS = ENV.middlewatch_message_retention_days
COMMAND_RETENTION_DAYS = ENV.middlewatch_command_retention_days
RUNBOOK_FOLDERS = [part.strip() for part in ENV.middlewatch_runbooks.split(",") if part.strip()]
RUNBOOK_ACTIONS = [part.strip() for part in ENV.middlewatch_actions.split(",") if part.strip()]
NOTIFY_ALLOW = [part.strip() for part in ENV.middlewatch_notify_allow.split(",") if part.strip()]
RUNS_AT_ONCE = ENV.middlewatch_runs_at_once
SPARES_KEPT = ENV.middlewatch_spares_kept
BREAKER_RUNS = ENV.middlewatch_breaker_runs
BREAKER_SHARE = ENV.middlewatch_breaker_share

BEHIND_TLS = BASE_URL.startswith("https://")
SESSION_COOKIE_SECURE = BEHIND_TLS
CSRF_COOKIE_SECURE = BEHIND_TLS
CSRF_TRUSTED_ORIGINS = [BASE_URL]
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if BEHIND_TLS else None

LOGGING = configure(ENV.middlewatch_log_level, ENV.middlewatch_log_format)

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "channels",
    "django_htmx",
    "ninja",
    "controlplane.access",
    "controlplane.live",
    "controlplane.chronicle",
    "controlplane.notify",
    "controlplane.events",
    "controlplane.fleet",
    "controlplane.runs",
    "controlplane.checkpoints",
    "controlplane.quarantine",
    "controlplane.incidents",
    "controlplane.runbooks",
    "controlplane.watch",
    "controlplane.analytics",
    "controlplane.replay",
    "controlplane.ingest",
    "controlplane.web",
    "controlplane.demo",
    "controlplane.embedded",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "controlplane.access.middleware.SignInRequired",
    "controlplane.access.middleware.OwnPasswordRequired",
    "controlplane.web.errors.ErrorPages",
]

ROOT_URLCONF = "controlplane.urls"
ASGI_APPLICATION = "controlplane.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [ROOT / "templates"],
        "APP_DIRS": False,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "controlplane.web.context.shell",
            ],
        },
    },
]

DATABASES = {"default": database(ENV.database_url)}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
AUTH_USER_MODEL = "access.User"

REDIS_URL = ENV.redis_url
CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        "CONFIG": {"hosts": [REDIS_URL], "prefix": "mw-live"},
    },
}

CELERY_BROKER_URL = REDIS_URL
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None  # a broker that is away comes back: never give up
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "visibility_timeout": 300,  # far above the longest task, or living tasks would be handed out twice
    "unacked_restore_interval": 1,
    "unacked_restore_throttle": 1,
    "socket_timeout": 10,
    "socket_connect_timeout": 5,
    "socket_keepalive": True,
    "health_check_interval": 10,
    "max_connections": 50,
}
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_TASK_PUBLISH_RETRY_POLICY = {"max_retries": 1, "interval_start": 0, "interval_max": 0.2}
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_TIMEZONE = "UTC"
CELERY_BEAT_SCHEDULER = "celery.beat:Scheduler"  # the schedule is code, so there is nothing to keep in a file
CELERY_BEAT_MAX_LOOP_INTERVAL = 1
CELERY_BEAT_SCHEDULE = BEAT_SCHEDULE

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True

STATIC_URL = "/static/"
STATIC_ROOT = ROOT / "staticfiles"
STATICFILES_DIRS = [ROOT / "static"]
WHITENOISE_USE_FINDERS = True
warnings.filterwarnings("ignore", message="No directory at", module="django.core.handlers.base")
warnings.filterwarnings("ignore", message="No directory at", module="whitenoise.base")

LOGIN_URL = "/sign-in/"
LOGIN_REDIRECT_URL = "/"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
# Cookies ignore ports: two instances on one host would sign each other's people out.
_ADDRESS = urlsplit(BASE_URL)
SESSION_COOKIE_NAME = f"middlewatch_session_{_ADDRESS.port or _ADDRESS.scheme}"
CSRF_COOKIE_NAME = f"middlewatch_csrf_{_ADDRESS.port or _ADDRESS.scheme}"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = _ADDRESS.scheme == "https"
CSRF_TRUSTED_ORIGINS = [f"{_ADDRESS.scheme}://{_ADDRESS.netloc}"]
X_FRAME_OPTIONS = "DENY"
CSRF_FAILURE_VIEW = "controlplane.web.errors.csrf_failed"

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'self'"],
        "style-src": ["'self'"],
        "script-src": ["'self'"],
        "img-src": ["'self'", "data:"],
        "connect-src": ["'self'"],
        "frame-ancestors": ["'none'"],
        "base-uri": ["'self'"],
        "form-action": ["'self'"],
    },
}
