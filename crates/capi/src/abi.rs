//! The types of `forebay.h`, exactly as C sees them. They name functions that trust their
//! arguments, so they stand in a file of that kind.

mod sys;

pub use self::sys::*;
