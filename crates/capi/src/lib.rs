//! The C library: `forebay.h` over the controller.
