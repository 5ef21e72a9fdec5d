# syntax=docker/dockerfile:1
# The image of fencepost: one program, built in the first stage, and in the last one nothing but this and a Node without a shell.
#
#   docker build --tag fencepost .
#   docker run --read-only --cap-drop ALL --env FENCEPOST_REDIS_NODES=… fencepost
#
# Both bases are arguments, so that a mirror or a base of one's own can be used, also without a network. The runtime base must
# have Node at /nodejs/bin/node; pin both by digest where builds are to be repeatable.
ARG BUILD_IMAGE=docker.io/library/node:26-trixie-slim
ARG RUNTIME_IMAGE=gcr.io/distroless/nodejs26-debian13:nonroot

FROM ${BUILD_IMAGE} AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc LICENSE ./
COPY packages/client/package.json ./packages/client/
COPY packages/saga/package.json ./packages/saga/
# No package runs code of its own here: Node is that of the image, and nothing else needs to be built.
RUN npm ci --ignore-scripts && cp package-lock.json node_modules/.fencepost-lock
COPY tsconfig.json tsconfig.build.json ./
COPY scripts ./scripts
COPY packages ./packages
COPY src ./src
# The packages for users of the client and the saga kit are published, and not part of the image.
RUN npm run build && rm -r dist/packages && npm run --silent generate -- sbom > sbom.cdx.json

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
COPY --chown=0:0 package.json LICENSE ./
COPY --from=build --chown=0:0 /app/sbom.cdx.json ./
COPY --from=build --chown=0:0 /app/dist ./dist
# Two threads are enough for file reads and DNS; the default of four costs stacks. Source maps are there and not enabled, because
# to read them costs 50 MiB: NODE_OPTIONS=--enable-source-maps where a stack must name the sources.
ENV NODE_ENV=production \
  UV_THREADPOOL_SIZE=2
# Numbers, so that the kubelet can tell that it is not root (runAsNonRoot).
USER 65532:65532
# Proxy, reservation API (on localhost only, unless set otherwise), health and metrics.
EXPOSE 8080 8081 9090
# Node as process 1 gets no default actions of signals; main.ts takes SIGTERM and SIGINT itself.
ENTRYPOINT ["/nodejs/bin/node", "/app/dist/main.js"]
CMD ["serve"]
