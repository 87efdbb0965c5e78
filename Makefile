# Forebay: what to build, show, test and install. `make` alone builds.

CARGO ?= cargo
PREFIX ?= /usr/local
DESTDIR ?=

# PROFILE=dev builds quickly and runs slowly; figures come from release builds only.
PROFILE ?= release
BUILT = $(or $(CARGO_TARGET_DIR),target)/$(if $(filter dev,$(PROFILE)),debug,$(PROFILE))
FOREBAY = $(BUILT)/forebay

.PHONY: build demo test lint docs install

build:
	scripts/install-deps build
	$(CARGO) build --locked --workspace --profile $(PROFILE)

# 32 plain processes read one file in strides from a modelled disk, without and with scheduling.
# FOREBAY_DEMO_QUICK=1 makes it a look instead of a measurement.
demo: build
	$(FOREBAY) bench strided-read --output $(BUILT)/demo $(if $(FOREBAY_DEMO_QUICK),--quick)

# The library is built first, because the tests run real programs under it.
test:
	scripts/install-deps test
	$(CARGO) build --locked --workspace
	$(CARGO) test --locked --workspace --no-fail-fast

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- --deny warnings
	$(CARGO) deny --version >/dev/null 2>&1 || $(CARGO) install --locked cargo-deny
	$(CARGO) deny check licenses bans sources

docs:
	RUSTDOCFLAGS=--deny=warnings $(CARGO) doc --locked --workspace --no-deps

MAN = $(DESTDIR)$(PREFIX)/share/man/man1
COMPLETIONS = $(BUILT)/completions

install: build
	install -D $(FOREBAY) $(DESTDIR)$(PREFIX)/bin/forebay
	install -d $(DESTDIR)$(PREFIX)/lib/forebay
	install $(BUILT)/libforebay_preload.so $(addprefix $(BUILT)/forebay-,lab-disk $(addprefix bench-,core socket strides)) $(DESTDIR)$(PREFIX)/lib/forebay
	$(FOREBAY) generate man $(MAN)
	$(FOREBAY) generate completions $(COMPLETIONS)
	install -D -m 644 $(COMPLETIONS)/forebay.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/forebay
	install -D -m 644 $(COMPLETIONS)/_forebay $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_forebay
	install -D -m 644 $(COMPLETIONS)/forebay.fish $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/forebay.fish

# AGIOS's interface (docs/agios.md): the libraries, both headers, pkg-config.
.PHONY: install-agios
install: install-agios
install-agios: build
	install -D $(BUILT)/libagios.so $(DESTDIR)$(PREFIX)/lib/libagios.so
	install -m 644 $(BUILT)/libagios.a $(DESTDIR)$(PREFIX)/lib/libagios.a
	install -D -m 644 crates/agios/include/agios.h $(DESTDIR)$(PREFIX)/include/agios.h
	install -D -m 644 crates/agios/include/agios-gekkofs/agios.h $(DESTDIR)$(PREFIX)/include/agios-gekkofs/agios.h
	install -d $(DESTDIR)$(PREFIX)/lib/pkgconfig
	sed 's|@PREFIX@|$(PREFIX)|' crates/agios/agios.pc.in >$(DESTDIR)$(PREFIX)/lib/pkgconfig/agios.pc
	sed 's|@PREFIX@|$(PREFIX)|' crates/agios/agios-gekkofs.pc.in >$(DESTDIR)$(PREFIX)/lib/pkgconfig/agios-gekkofs.pc
