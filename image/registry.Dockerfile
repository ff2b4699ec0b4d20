# The registry. Linted, not built: there was no container engine where this was written.
# BASE has no default on purpose: it must name an image by digest.
ARG BASE
FROM ${BASE} AS build
WORKDIR /source
COPY requirements/build.txt requirements/registry.txt requirements/
RUN python3 -m venv /opt/build \
 && /opt/build/bin/python -m pip install --no-cache-dir --no-deps --require-hashes \
      -r requirements/build.txt \
 && python3 -m venv /opt/registry \
 && /opt/registry/bin/python -m pip install --no-cache-dir --no-deps --require-hashes \
      -r requirements/registry.txt
COPY bundle/ bundle/
COPY server/ server/
# Our own packages as wheels, without their dependencies: the lock above has them.
WORKDIR /source/bundle
RUN /opt/build/bin/python -m hatchling build -t wheel -d /wheels
WORKDIR /source/server
RUN /opt/build/bin/python -m hatchling build -t wheel -d /wheels \
 && /opt/registry/bin/python -m pip install --no-cache-dir --no-deps --no-index /wheels/*.whl \
 && install -d -o 10001 -g 10001 /data

# hadolint ignore=DL3006
FROM ${BASE}
COPY --from=build /opt/registry /opt/registry
COPY --from=build --chown=10001:10001 /data /data
USER 10001:10001
VOLUME /data
EXPOSE 8765
ENTRYPOINT ["/opt/registry/bin/k3-registry"]
# Inside the container it must listen on every address; compose.yaml publishes loopback only.
CMD ["serve", "--data", "/data", "--host", "0.0.0.0", "--port", "8765"]
