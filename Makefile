# Bare `make` lists what can be made.
GO ?= go
FUZZTIME ?= 10s
MANDIR ?= man

.DEFAULT_GOAL := help
.PHONY: help build verbs onefile demo test check-c programs race fuzz bench bench-diff lint vectors cross arm64-test man ci clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build the command into bin/nicless
	$(GO) build -o bin/nicless ./cmd/nicless

verbs: build ## also the library that verbs programs preload, bin/libnicless_verbs.so
	$(MAKE) -C verbs/shim

onefile: ## bin/nicless with that library inside
	$(MAKE) -C verbs/shim OUT=libnicless_verbs.so
	$(GO) build -tags shim -o bin/nicless ./cmd/nicless

demo: ## one RDMA write byte by byte, then 300,000 operations
	$(GO) run ./cmd/nicless demo

test: ## all tests
	$(GO) test ./...

check-c: ## the C headers alone: compile them in C99 and C++17, run their self-test
	$(MAKE) -C include check

programs: ## verbs: all real programs in the list (minutes; needs those of Debian 12)
	$(GO) test ./verbs/programs -count=1 -programs -timeout 30m

race: ## all tests under the race detector
	$(GO) test -race ./...

fuzz: ## every fuzz target for FUZZTIME each (10s)
	@GO=$(GO) FUZZTIME=$(FUZZTIME) sh .ci/fuzz

bench: ## Go benchmarks of formats, posting, the engine
	$(GO) test -run '^$$' -bench . -benchmem ./...

bench-diff: ## the same for the previous commit and this one in turn, and the changes
	.ci/bench

lint: ## gofmt, go vet, staticcheck
	@test -z "$$(gofmt -l . | tee /dev/stderr)"
	$(GO) vet ./...
	$(GO) tool staticcheck ./...

vectors: ## golden vectors, with the counts of what was checked
	$(GO) test ./... -count=1 -run Golden -v | grep -E 'vectors checked|^(ok|FAIL)'

cross: ## build for other processors and systems
	GOARCH=arm64 $(GO) build ./...
	GOARCH=arm64 $(GO) vet ./...
	@GO=$(GO) sh .ci/cross

arm64-test: ## formats, posting and the engine's steps as arm64 programs (needs qemu-user)
	@GO=$(GO) sh .ci/arm64

man: ## manual pages of the command, in MANDIR (man)
	@$(GO) run ./cmd/nicless man $(MANDIR)

ci: ## what continuous integration runs
	bash .ci/run

clean: ## remove what was built
	rm -rf bin man
