# What people type. `make test` is all that must hold before anything lands.
export CGO_ENABLED = 0
GO      ?= go
VERSION ?= $(shell git describe --always --dirty 2>/dev/null || echo devel)
# What is shipped is small: no HTTP/2, names of generic code cut short, and no
# inlining nor guesses at small slices in packages where no robot spends its
# time (together they make the binary a tenth larger).
COLD     = crypto/... net/... vendor/... encoding/... errors io/... os strings syscall unicode path/... reflect internal/reflectlite math/big text/... regexp/... mime/... compress/... testing/... \
           internal/trace/... runtime/pprof os/... log/... flag fmt go.starlark.net/syntax go.starlark.net/resolve go.starlark.net/internal/... github.com/... go.etcd.io/... golang.org/... go.starlark.net/lib/... \
           edged/cmd/... edged/starlark/lib edged/hw/... edged/background edged/pool edged/bus/trace \
           edged/workflow/graph edged/workflow/society/... edged/agent/llm $(addprefix edged/agent/llm/,builtin/train mcp memory ollama openai recall replay schema)
SHAPES   = -d=maxshapelen=64
FLAGS    = -gcflags=all=$(SHAPES) $(foreach p,$(COLD),'-gcflags=$p=-l $(SHAPES),variablemakethreshold=0')
BUILD    = $(GO) build -trimpath -tags nethttpomithttp2 $(FLAGS) -ldflags "-s -w -X main.version=$(VERSION)"
OUT     ?= dist
SUDO     = $(shell test "$$(id -u)" = 0 || echo sudo)
GOVULNCHECK = v1.3.0
# Tests that need a real peer: Debian's packages.
PEERS    = mosquitto mosquitto-clients jq fuse3 e2fsprogs gcc libc6-dev g++ nlohmann-json3-dev libstb-dev chromium
# Where peers that are built are kept from run to run.
EDGED_CACHE ?= $(HOME)/.cache/edged-peers
export EDGED_CACHE

.PHONY: run vuln test check vet bar race peers root ollama tidy bench slow mutants dist fmt doc clean

run:            ## the demo
	$(GO) run ./cmd/edged demo

test: peers root check ## everything: peers installed, nothing skipped

check: vet bar race

vet:
	$(GO) vet ./...
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { echo "not formatted:"; gofmt -l $$(git ls-files '*.go'); exit 1; }

race:           ## the race detector needs cgo, the product doesn't
	EDGED_PEERS=required CGO_ENABLED=1 $(GO) test -race -p 1 -timeout 20m ./...

bar:            ## what the model in the binary promises: too slow to tell with the race detector
	$(GO) test -run '^TestBar$$' ./agent/llm/builtin

peers:          ## the real things the tests talk to
	@need=; for p in $(PEERS); do dpkg -s $$p >/dev/null 2>&1 || need="$$need $$p"; done; \
	if [ -n "$$need" ]; then echo "installing$$need"; \
	  $(SUDO) apt-get update -qq && $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$need >/dev/null; fi
	@test "$$EDGED_SKIP_OLLAMA" = 1 || $(MAKE) -s ollama

ollama:         ## the real model server: minutes the first time, then nothing
	@GO=$(GO) tests/ollama/install.sh $(EDGED_CACHE)/ollama

root:           ## some tests mount disks that fail: they use sudo, which asks here if it must
	@$(SUDO) true || { echo "make test: some tests mount disks and need root: run it as root, or with sudo installed and allowed"; exit 1; }

vuln:           ## known vulnerabilities, or that the list checked by hand is current
	@if curl -fsS -m 10 -o /dev/null https://vuln.go.dev/index/db.json 2>/dev/null; then \
	  echo "vuln: asking the Go vulnerability database"; $(GO) run golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK) ./cmd/edged; \
	else \
	  echo "vuln: NOT asked: the Go vulnerability database can't be reached from here"; \
	  $(GO) list -deps -f '{{with .Module}}{{if not .Main}}| `{{.Path}}` | {{.Version}} |{{end}}{{end}}' ./cmd/edged | grep . | sort -u | while IFS= read -r row; do \
	    grep -qF "$$row" doc/dependencies.md || { echo "vuln: doc/dependencies.md has no line $$row: look for its advisories and write it there"; exit 1; }; done && \
	  echo "vuln: the list in doc/dependencies.md, checked by hand, is that of the binary"; \
	fi

tidy:           ## go.mod says what the code needs
	$(GO) mod tidy -diff

bench:          ## the figures of doc/benchmarks.md, as ratios
	cd tests/bench && { test -d nodered/node_modules || npm install --silent --no-audit --no-fund --no-package-lock --prefix nodered; } && $(GO) run . -o ../../doc/benchmarks.md

slow: peers root ## soak tests, the long fault runs, other boards under emulation
	@dpkg -s qemu-user >/dev/null 2>&1 || $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends qemu-user >/dev/null
	EDGED_PEERS=required EDGED_SLOW=1 $(GO) test -timeout 3h ./...
	$(MAKE) mutants N=100

mutants:        ## small mistakes in the packages of safety and trust: would a test notice? N=0 makes all of them
	$(GO) run ./tests/mutation -n $(or $(N),0)

dist:           ## static binaries for the boards
	@mkdir -p $(OUT)
	GOOS=linux GOARCH=amd64 $(BUILD) -o $(OUT)/edged-linux-amd64 ./cmd/edged
	GOOS=linux GOARCH=arm64 $(BUILD) -o $(OUT)/edged-linux-arm64 ./cmd/edged
	GOOS=linux GOARCH=arm GOARM=7 $(BUILD) -o $(OUT)/edged-linux-armv7 ./cmd/edged
	GOOS=linux GOARCH=arm GOARM=6 $(BUILD) -o $(OUT)/edged-linux-armv6 ./cmd/edged
	@ls -l $(OUT)

fmt:
	gofmt -w $$(git ls-files '*.go')

doc:            ## regenerate doc/scripting.md from the builtins
	$(GO) run ./cmd/edged doc --markdown > doc/scripting.md

clean:
	rm -rf dist bin
