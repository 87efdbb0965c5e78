//! The drop-in for AGIOS: `agios.h` over the controller.
