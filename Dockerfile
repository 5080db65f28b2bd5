# The image of `make image`, for one architecture: make build && docker build -t lameduck:dev .
FROM scratch
COPY build/lameduck /lameduck
USER 65532:65532
ENTRYPOINT ["/lameduck"]
