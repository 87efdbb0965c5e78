//! The outer level against the bounds that it states, and naive versions of it that miss them.

mod bed;
mod drr;
mod hierarchy;
mod inner;
mod interface;
mod life;
mod limits;
mod naive;
mod reservations;
mod sfq;
mod sw;
mod twins;
