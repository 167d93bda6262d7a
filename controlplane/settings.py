"""Django settings. Every environment variable is read here, once; secrets have no default."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import unquote, urlparse

from django.core.exceptions import ImproperlyConfigured

BASE_DIR = Path(__file__).resolve().parent.parent


def _required(name: str) -> str:
    value = os.environ.get(name, "")
    if not value:
        raise ImproperlyConfigured(
            f"{name} is not set. `manage.py up` sets it for its children; elsewhere export it."
        )
    return value


def _database(url: str) -> dict[str, object]:
    """postgresql://user:password@host:port/name, or with ?host=/socket/dir as libpq writes it."""
    parts = urlparse(url)
    if parts.scheme not in ("postgres", "postgresql"):
        raise ImproperlyConfigured(f"DATABASE_URL must be postgresql://..., not {parts.scheme}://")
    query = dict(pair.split("=", 1) for pair in parts.query.split("&") if "=" in pair)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.lstrip("/")) or "longtail",
        "USER": unquote(parts.username or "postgres"),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": unquote(query.get("host", parts.hostname or "")),
        "PORT": query.get("port", str(parts.port or "")),
        "CONN_MAX_AGE": 0,
        "CONN_HEALTH_CHECKS": True,  # a pool outlives a restart of the server
        "OPTIONS": {"pool": {"min_size": 1, "max_size": DB_POOL_SIZE, "timeout": 30}}
        if DB_POOL_SIZE
        else {},
        "TEST": {"NAME": os.environ.get("LONGTAIL_TEST_DB") or None},
    }


DEBUG = os.environ.get("DEBUG", "") == "1"
SECRET_KEY = _required("LONGTAIL_SECRET_KEY")
VAR_DIR = Path(os.environ.get("LONGTAIL_VAR", BASE_DIR / "var")).resolve()
BLOB_URL = os.environ.get("LONGTAIL_BLOB_URL", f"file://{VAR_DIR}/blobs")
REDIS_URL = _required("REDIS_URL")
BASE_URL = os.environ.get("LONGTAIL_BASE_URL", "http://127.0.0.1:8000")
# Who may read /metrics from elsewhere than this machine; empty: nobody.
METRICS_TOKEN = os.environ.get("LONGTAIL_METRICS_TOKEN", "")
ALLOWED_HOSTS = os.environ.get("LONGTAIL_ALLOWED_HOSTS", "127.0.0.1,localhost,[::1]").split(",")
# At most eight connections a process: 384 trajectories in flight use 60 or fewer (architecture.md).
DB_POOL_SIZE = int(os.environ.get("LONGTAIL_DB_POOL", "8"))
LEASE_TTL_S = float(os.environ.get("LONGTAIL_LEASE_TTL_S", "30"))
HEARTBEAT_S = float(os.environ.get("LONGTAIL_HEARTBEAT_S", "5"))
REDISPATCH_S = float(os.environ.get("LONGTAIL_REDISPATCH_S", "30"))
SCHEDULE_EVERY_S = 2.0
MEASURE_EVERY_S = 5.0

DATABASES = {"default": _database(_required("DATABASE_URL"))}

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    "channels",
    "rest_framework",
    "drf_spectacular",
    "controlplane.accounts",
    "sandboxes",
    "runs",
]
AUTH_USER_MODEL = "accounts.User"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
ROOT_URLCONF = "controlplane.urls"
ASGI_APPLICATION = "controlplane.asgi.application"
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "controlplane.frontend.StaticFiles",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "controlplane" / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {"context_processors": ["django.template.context_processors.request"]},
    }
]

FRONTEND_DIST = BASE_DIR / "frontend" / "dist"
STATIC_URL = "/static/"
STATICFILES_DIRS = [("app", FRONTEND_DIST)] if FRONTEND_DIST.exists() else []
WHITENOISE_USE_FINDERS = True
WHITENOISE_ALLOW_ALL_ORIGINS = False
# Vite names files name-hash.ext: they are kept for ever.
WHITENOISE_IMMUTABLE_FILE_TEST = r"^.+-[\w-]{8}\.\w+$"
WHITENOISE_AUTOREFRESH = DEBUG

_https = BASE_URL.startswith("https://")
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = _https
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
SECURE_SSL_REDIRECT = _https
SECURE_HSTS_SECONDS = 31_536_000 if _https else 0
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
CSRF_TRUSTED_ORIGINS = [BASE_URL]
LOGIN_URL = "/login"
AUTH_PASSWORD_VALIDATORS = [
    {
        "NAME": "django.contrib.auth.password_validation.MinimumLengthValidator",
        "OPTIONS": {"min_length": 12},
    },
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]

# kombu has a name of its own for a Unix socket.
CELERY_BROKER_URL = REDIS_URL.replace("unix://", "redis+socket://", 1)
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
# A job is taken only into a free slot: one that is reserved behind 64 others waits while a neighbour idles.
CELERY_WORKER_DISABLE_PREFETCH = True
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
# A job that waited longer than the scheduler's patience is dispatched again: the copy is harmless.
CELERY_BROKER_TRANSPORT_OPTIONS = {"visibility_timeout": 86_400, "socket_timeout": 10}
CELERY_TASK_ROUTES = {
    "runs.jobs.*": {"queue": "control"},
    "workers.jobs.rollout.*": {"queue": "rollout"},
    "workers.jobs.train.*": {"queue": "train"},
    "workers.jobs.engine.*": {"queue": "engine"},
}
CELERY_BEAT_SCHEDULE = {
    "schedule": {
        "task": "runs.jobs.schedule",
        "schedule": SCHEDULE_EVERY_S,
        "options": {"queue": "control", "expires": SCHEDULE_EVERY_S},
    },
    "reap": {
        "task": "runs.jobs.reap",
        "schedule": HEARTBEAT_S,
        "options": {"queue": "control", "expires": HEARTBEAT_S},
    },
    "measure": {
        "task": "runs.jobs.measure",
        "schedule": MEASURE_EVERY_S,
        "options": {"queue": "control", "expires": MEASURE_EVERY_S},
    },
}
CELERY_BEAT_SCHEDULE_FILENAME = str(VAR_DIR / "celerybeat-schedule")

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "controlplane.accounts.tokens.TokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["controlplane.api.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_SCHEMA_CLASS": "controlplane.schema.AutoSchema",
    "EXCEPTION_HANDLER": "controlplane.api.exception_handler",
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
    "URL_FORMAT_OVERRIDE": None,  # ?format= is a word of exports
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Longtail API",
    "DESCRIPTION": "Control plane for fully asynchronous agentic RL of software-engineering agents.",
    "VERSION": "1",
    "OAS_VERSION": "3.1.0",
    "SERVE_INCLUDE_SCHEMA": False,
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "COMPONENT_SPLIT_REQUEST": True,
    "POSTPROCESSING_HOOKS": ["runs.api.live_schema.add_live_messages"],
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {"format": "{asctime} {levelname} {name}: {message}", "style": "{"},
    },
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": "INFO"},
    "loggers": {
        "django.request": {"level": "ERROR"},
        "celery.worker.strategy": {"level": "WARNING"},
        "celery.app.trace": {"level": "WARNING"},
        "celery.beat": {"level": "WARNING"},
        "httpx": {"level": "WARNING"},
    },
}
