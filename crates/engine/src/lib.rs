//! A scheduler driven by a real clock over the [`store::Store`] trait that this crate defines.
pub mod store;
