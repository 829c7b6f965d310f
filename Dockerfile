# The digest is that of the index, so each platform gets its own image. A mirror has the same image under another name:
# docker build --build-arg BASE=MIRROR/python:3.12-slim . Any Debian image with Python 3.11 or later and pip will do.
ARG BASE=python:3.12-slim@sha256:78387bc3881b8273120a12ebe6c1ab22b018ccc2c9adf565ae1ac9b536e184ea

# Packages change seldom, so they have a layer of their own. Without tests, sources in other languages and symbols for
# debuggers it has two thirds of their size.
FROM $BASE AS packages
ARG PIP_INDEX_URL
ENV PIP_DISABLE_PIP_VERSION_CHECK=1
RUN command -v strip || { apt-get update && apt-get install --yes --no-install-recommends binutils; }
RUN python -m venv --without-pip /opt/tidelock
COPY requirements.lock ./
RUN pip --python /opt/tidelock install --no-cache-dir --require-hashes -r requirements.lock
RUN find /opt/tidelock/lib -depth -path '*/numpy/*' -type d -name tests -exec rm -r {} +
RUN find /opt/tidelock/lib -type f '(' -name '*.[ach]' -o -name '*.cpp' -o -name '*.px[di]' -o -name '*.py[ix]' ')' -delete
RUN find /opt/tidelock/lib -name '*.so' -not -path '*.libs/*' -exec strip --strip-unneeded {} +

# The build backend stays in this stage.
FROM packages AS code
ARG PIP_INDEX_URL
COPY requirements-build.lock ./
RUN pip install --no-cache-dir --require-hashes -r requirements-build.lock
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY operator operator
RUN pip wheel --no-deps --no-build-isolation --wheel-dir /wheel .
RUN pip --python /opt/tidelock install --no-deps --no-index --prefix /opt/code /wheel/*.whl

FROM $BASE
# Without a line the runtime gives the user the group 0, as a kubelet passes on the number of the user alone.
RUN echo 'tidelock:x:65532:65532::/nonexistent:/usr/sbin/nologin' >> /etc/passwd && echo 'tidelock:x:65532:' >> /etc/group
# Nothing is installed in a running container.
RUN pip uninstall --yes --quiet --root-user-action=ignore pip
COPY --from=packages /opt/tidelock /opt/tidelock
COPY --from=code /opt/code /opt/tidelock
ENV PATH=/opt/tidelock/bin:$PATH PYTHONDONTWRITEBYTECODE=1
# A number, as a kubelet can't tell from a name that it is not root's.
USER 65532:65532
EXPOSE 8080
ENTRYPOINT ["tidelock"]
CMD ["run"]
ARG VERSION=
ARG REVISION=
LABEL org.opencontainers.image.title=Tidelock \
      org.opencontainers.image.description="Expiring locks on node capacity and load-aware placement for Kubernetes" \
      org.opencontainers.image.licenses=Apache-2.0 \
      org.opencontainers.image.version=$VERSION \
      org.opencontainers.image.revision=$REVISION
