//! `forebay why`: which policy a running forwarder uses, and why it is that one.

use std::fmt::{self, Display};
use std::process::ExitCode;

use clap::Args;
use forebay_forwarder::Status;
use forebay_forwarder::status::{Arm, Choice, Pattern, Selection};

use crate::asked::Asked;
use crate::columns::Columns;
use crate::console::{print, printable};
use crate::failure::{Failure, USAGE};
use crate::size::{Length, Size};

const HELP: &str = "\
How policy auto chooses:
  The pattern of the requests and the profile of the device are the features; a tree that was trained
  on simulated situations leads from them to a leaf, which says how fast each policy was there over TO
  (requests in the order of their arrival). From that it starts. Now and then another policy has its
  turn between two of the one in charge; each such comparison is a block, and what blocks show counts
  more with each. A policy that is seen to hurt goes at once and is not tried again for a while. With
  too little to order it is TO.

Reasons:
  start       nothing was seen yet
  prior       the tree says so, and nothing here speaks against it
  explore     to learn what it does here, for one time
  exploit     it was seen to be the best here
  kill        the policy before it was seen to hurt
  light-load  there is too little to order
  pinned      somebody said so, see forebay pin
  unwatched   there are more classes than are watched; then it is TO

Examples:
  forebay why unix:/run/fb.sock
  forebay why unix:/run/fb.sock --class 1000/climate
  forebay why unix:/run/fb.sock --json | jq '.choices[0].arms'

Exit code: 0 when the forwarder answered; 1 when it did not; 2 when it has no such class.";

/// What `forebay why` is told.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct WhyArgs {
    /// The forwarder: unix:/path or tcp:address:port
    #[arg(value_name = "ENDPOINT", env = "FOREBAY_ENDPOINT")]
    endpoint: String,
    /// Only for this class, as forebay status names it
    #[arg(long, value_name = "NAME")]
    class: Option<String>,
    /// Print it as JSON; null for a forwarder whose policy is not auto
    #[arg(long)]
    json: bool,
}

/// Asks a forwarder and prints its reasons.
pub(crate) fn why(args: WhyArgs) -> Result<ExitCode, Failure> {
    let mut asked = Asked::connect(&args.endpoint, "forebay why", "no answer from")?;
    let mut status = asked.status()?;
    if let (Some(class), Some(selection)) = (&args.class, &mut status.selection) {
        keep(selection, class)?;
    }
    let text = match args.json {
        true => {
            serde_json::to_string_pretty(&status.selection).map_err(|error| asked.failed(&error))?
                + "\n"
        }
        false => explained(&args.endpoint, &status),
    };
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Leaves one class.
fn keep(selection: &mut Selection, class: &str) -> Result<(), Failure> {
    let known: Vec<String> =
        selection.choices.iter().filter_map(|choice| choice.class.clone()).collect();
    selection.choices.retain(|choice| choice.class.as_deref() == Some(class));
    if selection.choices.is_empty() {
        let known = match known.is_empty() {
            true => "no class has a policy of its own".to_owned(),
            false => format!("known are {}", known.join(", ")),
        };
        return Err(Failure::new(USAGE, format!("--class {class}: no such class now; {known}")));
    }
    Ok(())
}

fn explained(endpoint: &str, status: &Status) -> String {
    let Some(selection) = &status.selection else {
        return format!(
            "The policy is {}, because scheduler.policy says so; nothing is chosen.\n\
             To have it chosen: forebay set {endpoint} policy=auto\n",
            status.policy
        );
    };
    let mut text = format!("device  {}\n", selection.device);
    text += &match &selection.state {
        Some(path) => format!("state   what is learned is kept in {path}\n"),
        None => "state   what is learned is forgotten at the end (select.state)\n".to_owned(),
    };
    if selection.choices.is_empty() {
        text += "\nNo request has come yet.\n";
    }
    for choice in &selection.choices {
        text += &format!("\n{}", Explained(choice));
    }
    text
}

struct Explained<'a>(&'a Choice);

impl Display for Explained<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let choice = self.0;
        let whose = choice.class.as_deref().map_or_else(|| "all requests".to_owned(), printable);
        let since = choice.switches.last().map_or_else(
            || "since the start".to_owned(),
            |switch| format!("for {}", Length(switch.ago_ns)),
        );
        writeln!(
            f,
            "{whose}: {} {since}: {}",
            choice.policy,
            because(&choice.reason, &choice.policy)
        )?;
        match &choice.pattern {
            Some(pattern) => writeln!(f, "  seen      {}", Seen(pattern))?,
            None => writeln!(f, "  seen      too little so far to tell a pattern")?,
        }
        if let Some(leaf) = choice.leaf {
            let path = match choice.path.is_empty() {
                true => "the tree asks nothing".to_owned(),
                false => choice.path.join(", "),
            };
            writeln!(f, "  leaf {leaf:<4} {path}")?;
        }
        if !choice.features.is_empty() {
            let features: Vec<String> =
                choice.features.iter().map(|(name, value)| format!("{name} {value:.4}")).collect();
            writeln!(f, "  features  {}", features.join(", "))?;
        }
        if !choice.arms.is_empty() {
            let table = arms(&choice.arms, &choice.policy).to_string();
            table.lines().try_for_each(|line| writeln!(f, "  {line}"))?;
        }
        if !choice.switches.is_empty() {
            writeln!(f, "  last switches")?;
        }
        for switch in choice.switches.iter().rev() {
            writeln!(
                f,
                "    {} ago to {}: {}",
                Length(switch.ago_ns),
                switch.policy,
                because(&switch.reason, &switch.policy)
            )?;
        }
        Ok(())
    }
}

/// A reason in a sentence.
fn because(reason: &str, policy: &str) -> String {
    match reason {
        "start" => "nothing was seen yet".to_owned(),
        "prior" => format!("the tree says that {policy} fits what is seen"),
        "explore" => format!("to learn what {policy} does here"),
        "exploit" => format!("{policy} was seen to be the best here"),
        "kill" => "the policy before it was seen to hurt".to_owned(),
        "light-load" => "there is too little to order".to_owned(),
        "pinned" => "pinned; forebay pin --release lets it be chosen".to_owned(),
        "unwatched" => "there are more classes than are watched".to_owned(),
        other => other.to_owned(),
    }
}

struct Seen<'a>(&'a Pattern);

impl Display for Seen<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Pattern { direction, reads_permille, spatiality, .. } = self.0;
        let files = match self.0.files {
            1 => format!("1 file of about {}", Size(self.0.file_bytes)),
            files => format!("{files} files of about {} each", Size(self.0.file_bytes)),
        };
        write!(
            f,
            "{spatiality} {direction}s of {}, {} for the application ({} at once), by {} clients in \
             {} streams on {files}; {} % are reads, {} % continue a stream, {} % have a neighbour",
            Size(self.0.request_bytes),
            self.0.size_class,
            Size(self.0.application_request_bytes),
            self.0.clients,
            self.0.streams,
            reads_permille / 10,
            self.0.hit_permille / 10,
            self.0.adjacent_permille / 10,
        )
    }
}

fn arms(arms: &[Arm], policy: &str) -> Columns {
    let mut columns =
        Columns::new(&["policy", "speed over TO", "between", "the tree says", "tried here", ""]);
    for arm in arms {
        let note = match (arm.policy == policy, arm.quarantine_left_ns) {
            (true, _) => "in force".to_owned(),
            (false, 0) => String::new(),
            (false, left) => format!("not tried for {}: it hurt", Length(left)),
        };
        columns.push([
            arm.policy.clone(),
            format!("{:.2}", arm.speedup),
            format!("{:.2} and {:.2}", arm.speedup_low, arm.speedup_high),
            format!("{:.2}", arm.speedup_prior),
            format!("{} blocks", arm.blocks),
            note,
        ]);
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_forwarder::status::Switch;

    fn choice(class: &str) -> Choice {
        let arm = |policy: &str, speedup, quarantine_left_ns| Arm {
            policy: policy.to_owned(),
            speedup,
            speedup_low: 0.9,
            speedup_high: 1.5,
            speedup_prior: 1.25,
            blocks: 7,
            quarantine_left_ns,
        };
        let switch =
            Switch { ago_ns: 2_500_000_000, policy: "SJF".into(), reason: "exploit".into() };
        Choice {
            class: Some(class.to_owned()),
            policy: "SJF".to_owned(),
            reason: "exploit".to_owned(),
            leaf: Some(4),
            path: vec!["is_read ≥ 0.5".to_owned()],
            features: [("is_read".to_owned(), 1.0)].into(),
            pattern: Some(Pattern {
                spatiality: "strided".into(),
                direction: "read".into(),
                size_class: "small".into(),
                request_bytes: 8192,
                files: 1,
                ..Pattern::default()
            }),
            arms: vec![arm("SJF", 1.31, 0), arm("MLF", 0.7, 42_000_000_000)],
            switches: vec![switch],
            ..Choice::default()
        }
    }

    fn status() -> Status {
        let selection = Selection {
            device: "a disk".to_owned(),
            state: None,
            choices: vec![choice("7/a"), choice("8/b\x1b[2J")],
        };
        Status { selection: Some(selection), ..Status::default() }
    }

    #[test]
    fn every_part_of_a_choice_is_told() {
        let text = explained("unix:/x", &status());
        for part in [
            "a disk",
            "7/a: SJF for 2.5 s: SJF was seen to be the best here",
            "strided reads of 8.0 KiB, small",
            "leaf 4    is_read ≥ 0.5",
            "is_read 1.0000",
            "1.31",
            "0.90 and 1.50",
            "7 blocks",
            "in force",
            "not tried for 42.0 s: it hurt",
            "2.5 s ago to SJF",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains('\x1b'), "{text:?}");
    }

    #[test]
    fn a_class_is_found_by_its_name_or_the_others_are_named() {
        let mut selection = status().selection.unwrap();
        let error = keep(&mut selection.clone(), "9/c").unwrap_err().to_string();
        assert!(error.contains("7/a"), "{error}");
        keep(&mut selection, "7/a").unwrap();
        assert_eq!(selection.choices.len(), 1);
    }

    #[test]
    fn a_policy_that_was_set_is_told_with_what_to_do() {
        let status = Status { policy: "aIOLi".to_owned(), ..Status::default() };
        let text = explained("unix:/x", &status);
        assert!(text.contains("aIOLi") && text.contains("set unix:/x policy=auto"), "{text}");
    }
}
