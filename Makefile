# metamcp. `make help` lists what there is. It works with GNU make 3.81 and newer
# (macOS has that one), as root too, and needs Go; the tests need Node.js as well.

.DEFAULT_GOAL := help
SHELL := /bin/sh

GO ?= go
FUZZTIME ?= 30s
# Tries to make an input smaller. The coverage of code with timers differs from run
# to run, and the default of a minute is spent on inputs that cover nothing new.
FUZZMIN ?= 10x
BENCH ?= .
# The gateway benchmark; a folder beside this one, and optional.
BENCH_DIR ?= ../shared/bench
# The retrieval benchmark: catalog.jsonl, queries.jsonl and its scorer.
RETRIEVAL_DIR ?= ../shared/retrieval
BENCH_ARGS ?= -rounds 5 -rotate

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)

# The version comes from git describe, so Go need not ask git itself, which fails
# in a checkout that belongs to another user.
export GOFLAGS := -buildvcs=false $(filter-out -buildvcs=%,$(GOFLAGS))

# The race detector needs a C compiler, except on macOS. Who has none may test
# without it; .ci/run insists.
CC_FOUND := $(shell command -v "$$($(GO) env CC | cut -d' ' -f1)" 2>/dev/null)
ifeq ($(shell uname -s),Darwin)
RACE ?= -race
else
RACE ?= $(if $(CC_FOUND),-race,)
endif

# Every program with the race detector sleeps a second before it ends, in case a
# goroutine that nobody waits for still has a race to show; the tests end hundreds.
GORACE ?= atexit_sleep_ms=0
export GORACE

LINT := $(GO) tool -modfile=.ci/tools.mod golangci-lint
TEST := $(GO) test $(RACE)

.PHONY: help
help: ## list the targets
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

# grpcnotrace leaves out gRPC's own debug page, which brings 7 MB of templates.
.PHONY: build
build: ## build bin/metamcp, and bin/metamcp-embed for local embedding models
	CGO_ENABLED=0 $(GO) build -trimpath -tags grpcnotrace -ldflags '-X main.version=$(VERSION)' -o bin/ ./cmd/metamcp ./cmd/metamcp-embed

.PHONY: demo
demo: build ## build it and show it at work
	./.ci/demo.sh

SOAK_HOURS ?= 1
SOAK_DIR ?= $(CURDIR)/bin

.PHONY: soak
soak: ## load a host with faults for SOAK_HOURS hours or SOAK_CALLS calls; soak.csv and soak.svg go to SOAK_DIR
	@mkdir -p '$(SOAK_DIR)'
	SOAK_HOURS='$(SOAK_HOURS)' SOAK_CALLS='$(SOAK_CALLS)' SOAK_CLIENTS='$(SOAK_CLIENTS)' SOAK_DIR='$(SOAK_DIR)' $(GO) test ./integration/soak -run TestSoak -count=1 -v -timeout 0

# Cheap failures first. Everything that CI runs is here, and nothing more. npm waits
# for the network while vet computes.
.PHONY: test
test: fmt-check tidy-check ## run everything that CI runs
	$(MAKE) -j2 vet npm
	$(MAKE) lint unit

# Go tests packages in the order in which they are named: what takes longest comes
# first, so that nothing is left running alone. `make vet` has vetted all of it.
LONG := ./integration/e2e ./index/store . ./integration/sandbox ./integration/conformance \
	./integration/telemetry ./actors ./integration/doctor ./integration/scrub

# Tests wait for processes and deadlines more than they compute: of three packages for
# two processors one waits, and of four tests of a package two do.
TEST_PACKAGES ?= $(shell n=$$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2); echo $$((n + (n + 1) / 2)))
TEST_PARALLEL ?= $(shell echo $$((2 * $$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2))))

.PHONY: unit
unit: built
	@$(if $(RACE),:,echo 'WARNING: there is no C compiler, so the tests run without the race detector' >&2)
	$(TEST_BUILT) $(TEST) -p $(TEST_PACKAGES) -parallel $(TEST_PARALLEL) -vet=off -timeout 25m $(LONG) ./...

.PHONY: test-20
test-20: npm built ## run all tests 20 times in a row
	$(TEST_BUILT) $(TEST) -count=20 -timeout 4h ./...

# Several packages test the whole program; here it is built for all of them, with
# and without the race detector, and the demo server, of which they start thousands. A
# file that has not changed is left alone, so that Go knows which tests it need not run
# again.
TEST_BUILT := METAMCP_TEST_BUILT='$(CURDIR)/bin/test'

.PHONY: built
built:
	@$(GO) build $(RACE) -o bin/test/new/host/ ./cmd/metamcp
	@CGO_ENABLED=0 $(GO) build -o bin/test/new/plain/ ./cmd/metamcp
	@CGO_ENABLED=0 $(GO) build -o bin/test/new/demo/ ./integration/demoserver/internal/demomain
	@cd bin/test && mkdir -p host plain demo && for f in host/metamcp plain/metamcp demo/demomain; do \
		cmp -s new/$$f $$f || { cp new/$$f $$f.new && mv $$f.new $$f; } || exit 1; done

.PHONY: fmt-check
fmt-check:
	@files=$$(find . -name node_modules -prune -o -name '*.go' -print | xargs gofmt -l) && \
	if [ -n "$$files" ]; then echo "gofmt -w would change:"; echo "$$files"; exit 1; fi

.PHONY: tidy-check
tidy-check:
	$(GO) mod tidy -diff

# The tests run on this system only; the others have to compile at least, their
# tests included. Nothing of ours is in C, so to vet it with cgo as well would be to do
# it twice.
.PHONY: vet
vet:
	GOOS=linux CGO_ENABLED=0 $(GO) vet ./...
	CGO_ENABLED=0 $(GO) run -modfile=.ci/tools.mod ./.ci/typecheck darwin windows

.PHONY: lint
lint: ## run golangci-lint in the version that .ci/tools.mod pins
	CGO_ENABLED=0 $(LINT) run

# One installer for make and for the tests that need the servers: this runs its tests.
.PHONY: npm
npm: ## install the MCP servers from npm that the tests use
	$(GO) test -timeout 20m ./integration/npmservers

.PHONY: bench
bench: build ## run the benchmarks, and the gateway benchmark where it is there
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem ./...
	@if [ -d '$(BENCH_DIR)' ]; then \
		set -e; root=$$(pwd); cd '$(BENCH_DIR)'; \
		$(GO) build -o "$$root/bin/bench/" ./cmd/...; \
		METAMCP_BIN="$$root/bin/metamcp" "$$root/bin/bench/gwbench" compare -targets targets/metamcp.json,direct $(BENCH_ARGS); \
	else echo 'no gateway benchmark at $(BENCH_DIR)'; fi

.PHONY: bench-search
bench-search: build ## score every ranking on the retrieval benchmark (RETRIEVAL_DIR)
	./.ci/bench-search.sh '$(RETRIEVAL_DIR)'

.PHONY: fuzz
fuzz: ## run each fuzz target for FUZZTIME (30s)
	@set -e; for pkg in $$($(GO) list ./...); do \
		for target in $$($(GO) test -list '^Fuzz' "$$pkg" | grep '^Fuzz' || true); do \
			echo "fuzz $$pkg $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime $(FUZZMIN) "$$pkg"; \
		done; \
	done

.PHONY: test-keyring
test-keyring: ## test the store of secrets with a real keyring (gnome-keyring, dbus-run-session)
	$(TEST) -tags secretservice -count=1 ./integration/secrets

.PHONY: scrub-rules
scrub-rules: ## fetch gitleaks' rules in the version that integration/scrub/fetchrules names
	$(GO) generate ./integration/scrub

.PHONY: clean
clean: ## remove what was built and installed here
	rm -rf bin integration/npmservers/node_modules integration/npmservers/modern/node_modules \
		integration/npmservers/.install.lock integration/npmservers/modern/.install.lock \
		integration/npmservers/browser/node_modules integration/npmservers/browser/.install.lock \
		integration/npmservers/compiler/node_modules integration/npmservers/compiler/.install.lock \
		integration/npmservers/clients/node_modules integration/npmservers/clients/.install.lock \
		integration/npmservers/conformance/node_modules integration/npmservers/conformance/.install.lock

.PHONY: screenshots
screenshots: npm ## make the pictures of the web page in docs/ anew
	$(GO) test ./integration/web -run TestScreens -update
