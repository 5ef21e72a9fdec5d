# syntax=docker/dockerfile:1
# The image of fencepost: compiled in one stage, its production packages installed in another, and in the last one nothing
# but these and a Node without a shell.
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
RUN npm run build

FROM ${BUILD_IMAGE} AS packages
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
COPY packages/client/package.json ./packages/client/
COPY packages/saga/package.json ./packages/saga/
# The broker clients of the saga kit are optional peers, which the sidecar does not use: they are left out as optional.
# Without their names the development packages are not missing from the bill, which is then made of what is installed.
# npm's links to the two packages lead nowhere in the image: dist/ has them built.
RUN npm ci --omit=dev --omit=optional --ignore-scripts \
  && npm pkg delete devDependencies \
  && npm sbom --sbom-format=cyclonedx > sbom.cdx.json \
  && rm -r node_modules/@fencepost

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
COPY --from=packages --chown=0:0 /app/sbom.cdx.json ./
COPY --from=packages --chown=0:0 /app/node_modules ./node_modules
COPY --from=build --chown=0:0 /app/dist ./dist
# Two threads are enough for file reads and DNS; the default of four costs stacks.
ENV NODE_ENV=production \
  NODE_OPTIONS=--enable-source-maps \
  UV_THREADPOOL_SIZE=2
# Numbers, so that the kubelet can tell that it is not root (runAsNonRoot).
USER 65532:65532
# Proxy, reservation API (on localhost only, unless set otherwise), health and metrics.
EXPOSE 8080 8081 9090
# Node as process 1 gets no default actions of signals; main.ts takes SIGTERM and SIGINT itself.
ENTRYPOINT ["/nodejs/bin/node", "/app/dist/main.js"]
CMD ["serve"]
