# `make run` sets up and runs the main job, `make test` sets up and passes the tests.

TARGET := $(or $(CARGO_TARGET_DIR),target)
TOOLHOST := $(TARGET)/release/toolhost
RUNNERS := $(TARGET)/release/runners
# What builds components of Python and JavaScript is installed here, once for everything.
TOOLS := $(abspath $(TARGET))/tools
DATA := host/data/toolsets.json
# Tests share what is compiled of other people's crates with `make run`, and nothing else.
TEST := --release --config .cargo/test.toml --config 'build.build-dir="$(abspath $(TARGET))"' --target-dir $(abspath $(TARGET))/tests
# Bundled plugins that are scripts.
SCRIPTS := plugins/csv-query plugins/html-to-markdown

.PHONY: run test install bench soak fuzz

run:
	@sh plugins/setup.sh rust
	@[ -x $(TOOLHOST) ] || echo "The first build takes about 10 minutes on two cores, most of it for the WebAssembly engine."
	@sh host/build.sh --release --package toolhost-cli
	@$(TOOLHOST) build ./plugins --bundled --yes
	@sh sdk/runners.sh $(TOOLS) $(RUNNERS) 'make run'
	@$(TOOLHOST) record-bundled $(SCRIPTS)
	@echo; echo '$$ $(TOOLHOST) list'
	@$(TOOLHOST) list
	@echo; echo 'How many core tools does this repository reserve, and which worlds has its contract?'
	@echo; echo "\$$ $(TOOLHOST) call json_query --arg filter='.core | length' --arg json=@$(DATA)"
	@$(TOOLHOST) call json_query --arg filter='.core | length' --arg json=@$(DATA)
	@echo; echo '$$ $(TOOLHOST) call search_files --arg pattern="^world" --dir .:ro'
	@$(TOOLHOST) call search_files --arg pattern="^world" --dir .:ro
	@echo; echo 'Try next:'
	@echo '  $(TOOLHOST) describe json_query'
	@echo '  $(TOOLHOST) call read_file --arg path=README.md --arg limit=20 --dir .:ro'
	@echo '  $(TOOLHOST) explain weather_now'
	@echo '  $(TOOLHOST) inspect plugins/json.wasm'

test:
	@sh plugins/setup.sh rust python javascript
	sh sdk/python/test.sh $(TOOLS)/python
	sh sdk/javascript/test.sh $(TOOLS)/javascript
	@# A program looks for the tools beside its own target folder.
	@mkdir -p $(TARGET)/tests && ln -sfn ../tools $(TARGET)/tests/tools
	cargo test --workspace --exclude toolhost-sdk --exclude toolhost-sdk-macros $(TEST)
	cargo test --package toolhost-sdk --package toolhost-sdk-macros $(TEST)
	cd plugins && CARGO_TARGET_DIR=$(abspath $(TARGET))/plugins cargo test --workspace

install:
	@sh plugins/setup.sh rust
	cargo install --locked --path host/cli
	@$(TOOLHOST) build ./plugins --install --yes
	@sh sdk/runners.sh $(TOOLS) $(RUNNERS) 'make install'
	@sh sdk/install.sh $(TOOLS) $(RUNNERS) "$$($(TOOLHOST) where data)"
	@$(TOOLHOST) record-bundled --install $(SCRIPTS)
	@command -v toolhost >/dev/null || echo 'Add the folder that cargo named above to PATH.'

bench:
	@sh plugins/setup.sh rust
	cargo bench --package toolhost-cli --bench costs

# Which ones run, how long, and with how many changes; the rest: host/cli/benches/soak/main.rs.
SOAK ?= mixed reloads
RELOADS ?= 10000
soak: MINUTES ?= 10
soak:
	@sh plugins/setup.sh rust
	@kept=0; for run in $(SOAK); do \
		cargo bench --package toolhost-cli --bench soak -- run=$$run minutes=$(MINUTES) reloads=$(RELOADS) $(OPTIONS) || kept=1; \
	done; exit $$kept

# Each target of tests/fuzz for a minute; MINUTES=60 takes longer, TARGETS=lock takes one. What it
# finds is in tests/fuzz/artifacts, and becomes a test.
TARGETS ?= component registration configuration lock arguments schema audit
fuzz: MINUTES ?= 1
fuzz:
	@command -v cargo-fuzz >/dev/null || cargo install --locked cargo-fuzz
	@for target in $(TARGETS); do \
		mkdir -p $(TARGET)/fuzz-corpus/$$target && \
		CARGO_TARGET_DIR=$(abspath $(TARGET))/fuzz cargo fuzz run --fuzz-dir tests/fuzz --sanitizer none $$target \
			$(abspath $(TARGET))/fuzz-corpus/$$target tests/fuzz/corpus/$$target -- \
			-max_total_time=$$(($(MINUTES) * 60)) -timeout=60 || exit 1; \
	done
