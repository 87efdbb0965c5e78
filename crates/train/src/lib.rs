//! The situations of AGIOS 2015 in virtual time, and the tree that is learned from them.
#![forbid(unsafe_code)]
