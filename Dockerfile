# The digest is that of the index, so each platform gets its own image. Both stages name the same one.
FROM python:3.12-slim@sha256:78387bc3881b8273120a12ebe6c1ab22b018ccc2c9adf565ae1ac9b536e184ea AS build
WORKDIR /src
ENV PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /opt/tidelock
ENV PATH=/opt/tidelock/bin:$PATH
COPY requirements.lock requirements-build.lock ./
RUN pip install --no-cache-dir --require-hashes -r requirements.lock
# The build backend does not stay in the image.
RUN pip install --no-cache-dir --require-hashes -r requirements-build.lock
COPY pyproject.toml README.md LICENSE ./
COPY operator operator
RUN pip install --no-deps --no-build-isolation .
RUN pip uninstall --yes -r requirements-build.lock

FROM python:3.12-slim@sha256:78387bc3881b8273120a12ebe6c1ab22b018ccc2c9adf565ae1ac9b536e184ea
COPY --from=build /opt/tidelock /opt/tidelock
ENV PATH=/opt/tidelock/bin:$PATH PYTHONDONTWRITEBYTECODE=1
# Without a line the runtime gives the user the group 0, as a kubelet passes on the number of the user alone.
RUN echo 'tidelock:x:65532:65532::/nonexistent:/usr/sbin/nologin' >> /etc/passwd && echo 'tidelock:x:65532:' >> /etc/group
# A number, as a kubelet can't tell from a name that it is not root's.
USER 65532:65532
EXPOSE 8080
ENTRYPOINT ["tidelock"]
CMD ["run"]
