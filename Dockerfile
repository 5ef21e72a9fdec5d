# syntax=docker/dockerfile:1
# The image of fencepost: one program, built in the first stage, and in the last one nothing but this and a Node without a shell.
#
#   docker build --tag fencepost .
#   docker run --read-only --cap-drop ALL --env FENCEPOST_REDIS_NODES=… fencepost
#
# Both bases are arguments, so that a mirror or a base of one's own can be used, also without a network. The runtime base must
# have Node at /nodejs/bin/node; pin both by digest where builds are to be repeatable. SOURCE_DATE_EPOCH is the time of every file that
# is added (docs/operations/deploy.md says how to get one digest from two builds).
ARG BUILD_IMAGE=docker.io/library/node:26-trixie-slim
ARG RUNTIME_IMAGE=gcr.io/distroless/nodejs26-debian13:nonroot

# What is built is JavaScript, the same for every architecture: it is built once, on that of the builder, and nothing is emulated.
# hadolint ignore=DL3029
FROM --platform=$BUILDPLATFORM ${BUILD_IMAGE} AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc LICENSE ./
COPY packages/client/package.json ./packages/client/
COPY packages/saga/package.json ./packages/saga/
# No package runs code of its own here: Node is that of the image, and nothing else needs to be built.
RUN npm ci --ignore-scripts
COPY scripts ./scripts
COPY packages ./packages
COPY src ./src
ARG SOURCE_DATE_EPOCH=0
RUN SOURCE_DATE_EPOCH="$SOURCE_DATE_EPOCH" node scripts/image-files.ts /image

FROM ${RUNTIME_IMAGE}
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="fencepost" \
  org.opencontainers.image.description="A Redlock quorum deduplication sidecar for HTTP" \
  org.opencontainers.image.licenses="Apache-2.0" \
  org.opencontainers.image.source="https://github.com/fencepost/fencepost" \
  org.opencontainers.image.version="${VERSION}" \
  org.opencontainers.image.revision="${REVISION}" \
  dev.fencepost.sbom="/app/sbom.cdx.json"
WORKDIR /app
COPY --from=build --chown=0:0 /image /app
# Two threads are enough for file reads and DNS; the default of four costs stacks. Arenas of the C library for each thread would keep a MiB
# for nothing. V8 sizes its young generation by the memory limit of the container, and within that of the chart (384 MiB) it would be so
# small that collecting garbage takes a third of the processor time (docs/internals/performance.md); each of its halves may have 16 MiB.
# Source maps are there and not enabled, because to read them costs 50 MiB: add --enable-source-maps where a stack must name the sources.
ENV NODE_ENV=production \
  UV_THREADPOOL_SIZE=2 \
  MALLOC_ARENA_MAX=2 \
  NODE_OPTIONS=--max-semi-space-size=16
# Numbers, so that the kubelet can tell that it is not root (runAsNonRoot).
USER 65532:65532
# Proxy, reservation API (on localhost only, unless set otherwise), health and metrics.
EXPOSE 8080 8081 9090
# Node as process 1 gets no default actions of signals; main.ts takes SIGTERM and SIGINT itself.
ENTRYPOINT ["/nodejs/bin/node", "/app/dist/main.js"]
CMD ["serve"]
