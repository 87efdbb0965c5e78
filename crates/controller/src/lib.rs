//! The controller: one scheduler shared by threads, in front of call-backs.
