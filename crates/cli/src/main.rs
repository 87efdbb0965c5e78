//! The `forebay` command: runs programs through a forwarder, serves one, and says what happened.

use std::process::ExitCode;

use clap::Parser as _;

mod args;
mod asked;
mod bench;
mod check;
mod columns;
mod console;
mod failure;
mod generate;
mod lab;
mod library;
mod pin;
mod probe;
mod run;
mod serve;
mod set;
mod setting_flags;
mod simulate;
mod size;
mod status;
mod trace;
mod train;
mod why;

use args::{Command, CommandLine};

fn main() -> ExitCode {
    let command = CommandLine::parse().command;
    let outcome = match command {
        Command::Run(args) => run::run(args),
        Command::Serve(args) => serve::serve(args),
        Command::Status(args) => status::status(args),
        Command::Check(args) => check::check(args),
        Command::Bench(args) => bench::bench(args),
        Command::Set(args) => set::set(args),
        Command::Why(args) => why::why(args),
        Command::Pin(args) => pin::pin(args),
        Command::Probe(args) => probe::probe(args),
        Command::Train(args) => train::train(args),
        Command::Trace(args) => trace::trace(args),
        Command::Simulate(args) => simulate::simulate(args),
        Command::Lab(args) => lab::lab(args),
        Command::Generate(args) => generate::generate(args),
    };
    outcome.unwrap_or_else(|failure| {
        console::say(format_args!("forebay: {failure}"));
        ExitCode::from(failure.code)
    })
}
