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

# The library is built first, because the tests run real programs under it. Drawn cases are the
# same in every run, so that a change is judged by itself; PROPTEST_RNG_SEED=N draws others.
test: export PROPTEST_RNG_SEED ?= 2006
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

# libforebay (forebay(3)): the libraries, the header, pkg-config, the man page.
VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
.PHONY: install-capi header sanitize
install: install-capi
install-capi: build
	install -D $(BUILT)/libforebay.so $(DESTDIR)$(PREFIX)/lib/libforebay.so.$(VERSION)
	ln -sf libforebay.so.$(VERSION) $(DESTDIR)$(PREFIX)/lib/libforebay.so.0
	ln -sf libforebay.so.0 $(DESTDIR)$(PREFIX)/lib/libforebay.so
	install -m 644 $(BUILT)/libforebay.a $(DESTDIR)$(PREFIX)/lib/libforebay.a
	install -D -m 644 crates/capi/include/forebay.h $(DESTDIR)$(PREFIX)/include/forebay.h
	install -D -m 644 crates/capi/man/forebay.3 $(DESTDIR)$(PREFIX)/share/man/man3/forebay.3
	install -d $(DESTDIR)$(PREFIX)/lib/pkgconfig
	sed 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|$(VERSION)|' crates/capi/forebay.pc.in >$(DESTDIR)$(PREFIX)/lib/pkgconfig/forebay.pc

# Writes forebay.h anew from crates/capi/src.
header:
	FOREBAY_WRITE_HEADER=1 $(CARGO) test --locked -p forebay-capi --test capi the_header_is_fresh

# C programs and examples under ThreadSanitizer, with the compiler that is there; it says so where it cannot.
sanitize:
	scripts/sanitize || test $$? = 77

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

# Measures all situations anew and learns the tree; fails unless every byte is as published.
.PHONY: reproduce
reproduce: build
	$(FOREBAY) train --check
