# Bare `make` lists what can be made.
GO ?= go
FUZZTIME ?= 10s
MANDIR ?= man
# Each pair of machines gets two cores. With SHARE=I/N a part of the tests runs, as in CI (.ci/share).
LAB = $(GO) test ./tools/lab -count=1 -v -lab -timeout 40m -parallel $$((($$(nproc) + 1) / 2)) $(if $(SHARE),-share $(SHARE))

.DEFAULT_GOAL := help
.PHONY: help check hook steady build verbs ucx gpu inside onefile release packages demo test check-c programs lab lab-pcie lab-cxl lab-verbs lab-ip lab-new lab-files race fuzz bench bench-diff figures lint vectors cross arm64-test site screenshots man ci clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build the command into bin/nicless
	$(GO) build -o bin/nicless ./cmd/nicless

verbs: build ## build the command, and bin/libnicless_verbs.so, which verbs programs preload
	$(MAKE) -C verbs/shim

ucx: build ## build the command, and bin/nicless-ucx, which carries packets over UCX
	$(MAKE) -C fabric/ucx/carrier

gpu: build ## build the command, and bin/gpu, the libraries of emulated GPUs for CUDA programs
	$(MAKE) -C cuda

inside: # what -tags shim puts into the command
	$(MAKE) -C verbs/shim OUT=libnicless_verbs.so
	$(MAKE) -C fabric/ucx/carrier OUT=nicless-ucx

onefile: inside ## build bin/nicless with the library for verbs programs, and the carrier for UCX, inside
	$(GO) build -tags shim -o bin/nicless ./cmd/nicless

# Without a version it is the next one, before its release: with the number of the commit.
VERSION ?= $(shell sed -n 's/.*nicless\/tools \(v[0-9.]*\) =>.*/\1/p' go.work)-dev.$(shell git rev-list --count HEAD)

release: ## all files of a release of the last commit, in dist: VERSION (vX.Y.Z), ARCHS ("amd64 arm64")
	@GO=$(GO) scripts/release.sh $(VERSION)

packages: ## fetch the packages of Debian for images of a release into bin/packages: ARCHS ("amd64 arm64")
	@for arch in $(or $(ARCHS),amd64 arm64); do scripts/image-packages bin/packages/$$arch $$arch || exit; done

demo: ## one RDMA write byte by byte, then 300,000 operations
	$(GO) run ./cmd/nicless demo

check: ## format, wording, vet, staticcheck of what has changed, and the quick tests: before each commit
	@GO=$(GO) .ci/check

hook: ## let git run `make check` before each commit
	git config core.hooksPath scripts/hooks

steady: ## the suites beside a load, N times; ARGS has options (-h lists them)
	@$(GO) build -o bin/steady ./tools/steady/run
	@exec bin/steady $(ARGS) # not go run, which a signal ends and its program not

test: ## all tests
	$(GO) test ./...

check-c: ## compile the C headers as C99 and C++17, and run their self-test
	$(MAKE) -C include check

programs: ## run all real programs in the lists, on verbs and on networks (takes minutes; needs the programs of Debian 12)
	$(GO) test ./verbs/programs -count=1 -programs -timeout 30m
	$(GO) test ./netdev/programs -count=1 -programs -timeout 30m

lab: ## two virtual machines that share memory: all that follows (tools/lab/README.md)
	$(LAB) -run .

lab-pcie: ## memory behind a PCI device: lines, posters, garbage, death
	$(LAB) -run TestPCIe

lab-cxl: ## the same with memory of a CXL device
	$(LAB) -run TestCXL

lab-verbs: ## unmodified verbs programs in the machines
	$(LAB) -run TestVerbs

lab-ip: ## IP between the machines: ping and iperf3
	$(LAB) -run TestIP

lab-new: ## lab-cxl with QEMU 10 and Linux 6.12 from Debian's backports
	$(LAB) -run TestNewerCXL -newer

lab-files: ## what tools/lab/vms/*/node*.sh start machines with, in bin/lab
	$(GO) run ./tools/lab/build bin/lab

race: ## all tests under the race detector, except those of programs
	.ci/race

fuzz: ## run each fuzz target for FUZZTIME (10s)
	@GO=$(GO) FUZZTIME=$(FUZZTIME) sh .ci/fuzz

bench: ## Go benchmarks of formats, posting and the engine
	$(GO) test -run '^$$' -bench . -benchmem work

bench-diff: ## benchmarks of the previous commit and of this one, and what has changed
	.ci/bench-diff

figures: ## write docs/figures.txt, with which CI compares counts of instructions and bytes
	.ci/bench --update

lint: ## gofmt, words, go vet, staticcheck
	@test -z "$$(gofmt -l . | tee /dev/stderr)"
	$(GO) run ./tools/words
	$(GO) vet work
	$(GO) tool staticcheck work

vectors: ## tests of golden vectors, with the number of vectors checked
	@GO=$(GO) .ci/golden

cross: ## build for other processors and systems
	GOARCH=arm64 $(GO) build work
	GOARCH=arm64 $(GO) vet work
	@GO=$(GO) sh .ci/cross

arm64-test: ## formats, posting and the engine's steps as arm64 programs (needs qemu-user)
	@GO=$(GO) sh .ci/arm64

site: ## the documentation as a site for browsers, with the decoder, in site/; it works from file:// too
	$(GO) run ./tools/site -o site

screenshots: ## pictures of nicless web and top, the decoder and the site, in bin/screenshots (needs chromium)
	CI=true $(GO) test ./tools/decodepage ./tools/site ./cmd/nicless/internal/web ./cmd/nicless/internal/top -count=1 -args -screenshots $(CURDIR)/bin/screenshots

man: ## manual pages of the command, in MANDIR (man)
	@$(GO) run ./cmd/nicless man $(MANDIR)

ci: ## what continuous integration runs; STAGE is quick, race, programs, networks or release, or nothing for all
	bash .ci/run $(STAGE)

clean: ## remove what was built
	rm -rf bin man site dist
