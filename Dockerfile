# The control plane's image: web, ingest, worker and beat are the same code with different commands.
# It holds what production needs and nothing else: no torch, no test tools, no embedded servers.

FROM python:3.11.14-slim-bookworm AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /venv
COPY requirements/lock /src/requirements/lock
RUN /venv/bin/pip install -r /src/requirements/lock/control.txt -r /src/requirements/lock/build.txt
COPY agents /src/agents
RUN /venv/bin/pip install --no-build-isolation --no-deps /src/agents/wire \
    && /venv/bin/pip uninstall -y setuptools wheel

FROM python:3.11.14-slim-bookworm AS control
RUN useradd --system --uid 10001 --home-dir /app --shell /usr/sbin/nologin middlewatch
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 DJANGO_SETTINGS_MODULE=controlplane.settings.base
WORKDIR /app
COPY --from=build /venv /venv
COPY manage.py ./
COPY controlplane controlplane
COPY runbooks runbooks
COPY templates templates
COPY static static
RUN python manage.py collectstatic --no-input
USER middlewatch
EXPOSE 8000
CMD ["uvicorn", "controlplane.asgi:application", "--host", "0.0.0.0", "--port", "8000", "--timeout-keep-alive", "75", "--no-access-log"]

# The node agent: three packages beside the standard library, no Django.
FROM python:3.11.14-slim-bookworm AS agent
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PYTHONUNBUFFERED=1
COPY requirements/lock /src/requirements/lock
COPY agents /src/agents
RUN pip install -r /src/requirements/lock/build.txt \
    && pip install -c /src/requirements/lock/control.txt msgspec psutil zstandard \
    && pip install --no-build-isolation --no-deps /src/agents/wire /src/agents/node \
    && pip uninstall -y setuptools wheel \
    && useradd --system --uid 10002 --create-home --home-dir /var/lib/middlewatch --shell /usr/sbin/nologin middlewatch
USER middlewatch
VOLUME /var/lib/middlewatch
ENTRYPOINT ["middlewatch-agent"]
CMD ["run", "--state", "/var/lib/middlewatch"]
