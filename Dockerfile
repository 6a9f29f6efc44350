# medsanitize in a container: docker build -t medsanitize:0.1.0 .
# It needs no network and no writable root:
#   docker run --rm --network none --read-only --tmpfs /tmp -v "$PWD:/work" medsanitize:0.1.0 run policy.yaml
# EXTRAS is what a policy needs, for example "text,pixels"; empty for headers alone.
FROM python:3.11.13-slim-bookworm AS build
ARG EXTRAS=all
WORKDIR /build
COPY . .
RUN python -m venv /opt/medsanitize \
    && /opt/medsanitize/bin/pip install --no-cache-dir --disable-pip-version-check -c constraints.txt ".[${EXTRAS}]"

FROM python:3.11.13-slim-bookworm
# The wheels bring their libraries: of the system they need nothing that the base image lacks.
COPY --from=build /opt/medsanitize /opt/medsanitize
COPY --chmod=0755 deploy/batch-job.sh /usr/local/bin/medsanitize-job
# A run uses one process a core, so no library starts threads of its own. Libraries are kept offline by the package itself.
ENV PATH=/opt/medsanitize/bin:/usr/local/bin:/usr/bin:/bin \
    HOME=/tmp \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    OMP_NUM_THREADS=1 \
    OPENBLAS_NUM_THREADS=1 \
    RAY_USAGE_STATS_ENABLED=0 \
    ORT_DISABLE_TELEMETRY=1 \
    DO_NOT_TRACK=1
# Keys and data are mounted or come by the environment when a container runs; none is in the image.
USER 10001:10001
WORKDIR /work
ENTRYPOINT ["medsanitize"]
CMD ["--help"]
