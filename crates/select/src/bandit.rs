//! The guarded bandit of one class: which arm has its turn, from paired epochs.
