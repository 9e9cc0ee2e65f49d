# The engine in a container: one static file, no shell, no root.
#
#   docker build -t nicless .
#   docker run -v nicless:/run/nicless nicless
#
# Programs in other containers on the same host mount the volume and connect to
# /run/nicless/nicless.sock. The mode of the socket decides who may connect: programs run
# as user 65532 too, or the engine is given --mode 0666 and the directory mode 0755.
#
# Arguments replace those of CMD, so name the socket again:
#
#   docker run -v nicless:/run/nicless --cpuset-cpus 3 nicless \
#     engine --socket /run/nicless/nicless.sock --idle spin
#
# Verbs programs are not for this image: they need a C library, rdma-core, and an engine
# in their own container. A seccomp profile of your own must allow membarrier
# (docs/TUNING.md).
FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum go.work go.work.sum ./
COPY tools/go.mod tools/go.sum tools/
COPY cmd/nicless/go.mod cmd/nicless/go.sum cmd/nicless/
COPY cuda/go.mod cuda/go.sum cuda/
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o /out/nicless ./cmd/nicless
RUN mkdir -p /out/run/nicless && chmod 0750 /out/run/nicless

FROM scratch
COPY --from=build /out/nicless /nicless
COPY --from=build --chown=65532:65532 /out/run /run
COPY LICENSE /LICENSE
USER 65532:65532
VOLUME /run/nicless
STOPSIGNAL SIGTERM
ENTRYPOINT ["/nicless"]
CMD ["engine", "--socket", "/run/nicless/nicless.sock"]
