# Two stages: one compiles the wheel and fills a virtualenv, the other is only Python and that virtualenv.
ARG BASE=python:3.13-slim

FROM ${BASE} AS build
# python3-dev is for bases whose Python is the distribution's own; the official images bring Python.h.
RUN apt-get update \
 && apt-get install --yes --no-install-recommends gcc libc6-dev \
 && { test -e "$(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h" \
   || apt-get install --yes --no-install-recommends python3-dev; }
RUN python3 -m venv /opt/siltstone
COPY docker/requirements.lock /build/
RUN /opt/siltstone/bin/pip install --no-cache-dir --require-hashes --requirement /build/requirements.lock
COPY . /build/siltstone
ARG SILTSTONE_COMMIT=
RUN SILTSTONE_COMMIT="$SILTSTONE_COMMIT" /opt/siltstone/bin/pip wheel --no-cache-dir --no-deps --wheel-dir /build/dist /build/siltstone \
 && /opt/siltstone/bin/pip install --no-cache-dir --no-deps /build/dist/siltstone-*.whl \
 && /opt/siltstone/bin/pip uninstall --yes setuptools pip \
 && mkdir /build/data

FROM ${BASE}
# Slim bases have no bytecode and the daemon's user can write none: each start would compile Python's library.
RUN python3 -m compileall -q -x '/(test|tests|idlelib|lib2to3|site-packages|dist-packages)/' \
    "$(python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')"
COPY --from=build /opt/siltstone /opt/siltstone
COPY --from=build --chown=65534:65534 /build/data /var/lib/siltstone
COPY docker/server.yaml /etc/siltstone/server.yaml
COPY docker/run /etc/kafka/docker/run
COPY docker/entrypoint /usr/local/bin/siltstone-entrypoint
ENV PATH=/opt/siltstone/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    SILTSTONE_CONFIG=/mnt/shared/config/server.properties:/etc/siltstone/server.yaml
USER 65534:65534
WORKDIR /var/lib/siltstone
VOLUME /var/lib/siltstone
EXPOSE 9092 9464
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 CMD ["siltstone", "health", "--timeout", "4"]
ENTRYPOINT ["siltstone-entrypoint"]
CMD ["serve"]
