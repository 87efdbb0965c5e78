//! The few functions of real numbers that `core` does not have.
