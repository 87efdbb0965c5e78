//! `agios-table3`, `agios-table4`, `agios-table7`: what AGIOS 2015 found best where, its trees, and
//! what they gain.
//!
//! All of it comes from the published tables of `forebay-train`: nothing is run but the learning.

use forebay_sched::PolicyName;
use forebay_select::{Feature, Node};
use forebay_train::evaluate::{gain_over, oracle, outcome};
use forebay_train::examples::labelled;
use forebay_train::protocol::{Material, choices};
use forebay_train::reproduce::Data;
use forebay_train::situation::operation;
use forebay_train::table::POLICIES;
use forebay_train::validate::{T1, T2, T3};
use serde_json::Value;

use super::{Figure, PaperValue, parameter};
use crate::error::Error;
use crate::progress::Track;
use crate::report::{Report, Row};

/// The paper, with the table's name.
macro_rules! paper_2015 {
    ($table:literal) => {
        concat!(
            "Boito, Kassick, Navaux, Denneulin 2015: Automatic I/O scheduling algorithm selection for \
             parallel file systems, ",
            $table
        )
    };
}

const DIFFERS: &str = "simulated servers instead of four clusters, each device with the paper's ratios \
     and no page cache or elevator beneath: time order pays for every seek there, so gains are many \
     times the paper's; counts and misclassification under the same protocol are what compares.";

pub(super) const TABLE3: Figure = Figure {
    name: "agios-table3",
    summary: "the best policy of each of the 96 patterns on each device",
    paper: paper_2015!("table III"),
    values: &[
        PaperValue { what: "situations for which aIOLi is the choice", value: "60 of 192 (31 %)" },
        PaperValue { what: "situations for which SJF is the choice", value: "92 of 192 (48 %)" },
        PaperValue {
            what: "the others",
            value: "40 of 192: MLF, TO-agg, TO and no scheduling, each at least once",
        },
    ],
    sizes: |_| String::new(),
    differs: DIFFERS,
    ratios: &[("situations_aioli", 60.0), ("situations_sjf", 92.0)],
    beside: |_| None,
    run: |_, _, _| table3(),
    charts: |_| Vec::new(),
};

pub(super) const TABLE4: Figure = Figure {
    name: "agios-table4",
    summary: "the three trees: size, cross-validation, and matches with the oracle",
    paper: paper_2015!("table IV and sections 4 and 5"),
    values: &[
        PaperValue {
            what: "T1, T2, T3: misclassification in ten-fold cross-validation",
            value: "8.85, 8.33, 30.21 %",
        },
        PaperValue { what: "T1, T2, T3: nodes, leaves", value: "53, 27; 53, 27; 17, 9" },
        PaperValue {
            what: "aIOLi only, SJF only, T1, T2, T3: matches with the oracle",
            value: "60, 92, 192, 192, 142 of 192",
        },
    ],
    sizes: |_| String::new(),
    differs: DIFFERS,
    ratios: &[
        ("misclassification_t1", 0.0885),
        ("misclassification_t2", 0.0833),
        ("misclassification_t3", 0.3021),
    ],
    beside: |row| {
        let solution = parameter(row, "solution");
        let paper = PAPER_TABLE4.iter().find(|(name, ..)| name.eq_ignore_ascii_case(solution))?;
        match row.name {
            "matches" => Some(paper.1),
            "nodes" => paper.2.map(|[nodes, _, _]| nodes),
            "leaves" => paper.2.map(|[_, leaves, _]| leaves),
            "plain_cv" => paper.2.map(|[_, _, wrong]| wrong),
            _ => None,
        }
    },
    run: |_, _, track| table4(track),
    charts: |_| Vec::new(),
};

pub(super) const TABLE7: Figure = Figure {
    name: "agios-table7",
    summary: "situations improved and hurt by the oracle, the trees, aIOLi only and SJF only",
    paper: paper_2015!("table VII and section 5"),
    values: &[
        PaperValue {
            what: "oracle, T1, T2: improved by more than 10 %, hurt by more than 10 %, neither",
            value: "71 (11 to 59 %), 4 (at most 12 %), 117",
        },
        PaperValue { what: "aIOLi only", value: "66, 37 (up to 278 %), 89" },
        PaperValue { what: "SJF only", value: "42, 21 (up to 23 %), 129" },
        PaperValue { what: "T3: hurt", value: "10 (25 %)" },
        PaperValue { what: "best over aIOLi only, over SJF only", value: "74.9 %, 38 %" },
    ],
    sizes: |_| String::new(),
    differs: DIFFERS,
    ratios: &[],
    beside: |row| {
        let solution = parameter(row, "solution");
        let (_, found) =
            PAPER_TABLE7.iter().find(|(name, _)| name.eq_ignore_ascii_case(solution))?;
        let place = ["improved", "hurt", "neither"].iter().position(|name| *name == row.name)?;
        Some(found[place])
    },
    run: |_, _, _| table7(),
    charts: |_| Vec::new(),
};

/// The trees as the paper made them, by name.
const TREES: [(&str, &[Feature]); 3] = [("T1", &T1), ("T2", &T2), ("T3", &T3)];

/// Matches with the oracle; nodes, leaves and misclassification of the trees.
const PAPER_TABLE4: [(&str, f64, Option<[f64; 3]>); 5] = [
    ("aIOLi only", 60.0, None),
    ("SJF only", 92.0, None),
    ("T1", 192.0, Some([53.0, 27.0, 0.0885])),
    ("T2", 192.0, Some([53.0, 27.0, 0.0833])),
    ("T3", 142.0, Some([17.0, 9.0, 0.3021])),
];

/// Situations improved, hurt, neither.
const PAPER_TABLE7: [(&str, [f64; 3]); 5] = [
    ("oracle", [71.0, 4.0, 117.0]),
    ("T1", [71.0, 4.0, 117.0]),
    ("T2", [71.0, 4.0, 117.0]),
    ("aIOLi only", [66.0, 37.0, 89.0]),
    ("SJF only", [42.0, 21.0, 129.0]),
];

fn published() -> Result<Data, Error> {
    Data::published().map_err(Error::failed)
}

fn single(name: &'static str, unit: &'static str, of: &[(&'static str, Value)], value: f64) -> Row {
    Row::median(name, unit, of, &[value])
}

fn table3() -> Result<Report, Error> {
    let data = published()?;
    let mut report = Report::new(TABLE3.name);
    let (_, labels) = labelled(&data.paper);
    for ((situation, _), label) in data.paper.rows.iter().zip(&labels).step_by(2) {
        let pattern = situation.pattern;
        let parameters = [
            ("device", Value::from(situation.device)),
            ("applications", pattern.applications.into()),
            ("layout", pattern.layout.as_str().into()),
            ("request_kib", pattern.request_kib.into()),
            ("operation", operation(pattern.direction).into()),
            ("policy", label.as_str().into()),
        ];
        let ours = data
            .paper
            .rows
            .iter()
            .filter(|row| row.0.device == situation.device && row.0.pattern == pattern);
        let table = forebay_train::Table { rows: ours.cloned().collect() };
        let choices = vec![*label; table.rows.len()];
        report.rows.push(single("speedup", "", &parameters, outcome(&table, &choices).speedup));
    }
    for policy in POLICIES {
        let count = labels.iter().filter(|label| **label == policy).count();
        report.ratio(format!("situations_{}", key(policy)), Some(count as f64));
    }
    Ok(report)
}

fn key(policy: PolicyName) -> String {
    policy.as_str().to_lowercase().replace('-', "_")
}

fn table4(track: &mut Track<'_>) -> Result<Report, Error> {
    let data = published()?;
    let mut report = Report::new(TABLE4.name);
    track.expect(TREES.len(), TREES.len() as f64);
    let (_, labels) = labelled(&data.paper);
    let matches = |name: &str, chosen: &[PolicyName], report: &mut Report| {
        let count = labels.iter().zip(chosen).filter(|(label, choice)| label == choice).count();
        let parameters = [("solution", Value::from(name))];
        report.rows.push(single("matches", "", &parameters, count as f64));
    };
    for policy in [PolicyName::Aioli, PolicyName::Sjf] {
        matches(&format!("{policy} only"), &vec![policy; labels.len()], &mut report);
    }
    for (name, asked) in TREES {
        let material = Material::labelled(&data, asked);
        let tree = material.tree();
        matches(name, &choices(&tree, &data.paper), &mut report);
        let parameters = [("solution", Value::from(name))];
        let leaves = tree.nodes().iter().filter(|node| matches!(node, Node::Leaf(_))).count();
        let plain = material.misclassification(false);
        let grouped = material.misclassification(true);
        for (what, unit, value) in [
            ("nodes", "", tree.nodes().len() as f64),
            ("leaves", "", leaves as f64),
            ("plain_cv", "part", plain),
            ("twins_together", "part", grouped),
        ] {
            report.rows.push(single(what, unit, &parameters, value));
        }
        report.ratio(format!("misclassification_{}", name.to_lowercase()), Some(plain));
        track.case(1.0, format!("{name}  {:.2} %", plain * 100.0));
    }
    Ok(report)
}

fn table7() -> Result<Report, Error> {
    let data = published()?;
    let mut report = Report::new(TABLE7.name);
    let tree = forebay_prior::default_tree();
    let only = |policy| vec![policy; data.paper.rows.len()];
    let of_tree = |(name, asked): (&'static str, &[Feature])| {
        (name, choices(&Material::labelled(&data, asked).tree(), &data.paper))
    };
    let solutions = [
        ("oracle", oracle(&data.paper)),
        ("compiled tree", choices(&tree, &data.paper)),
        ("aIOLi only", only(PolicyName::Aioli)),
        ("SJF only", only(PolicyName::Sjf)),
    ];
    for (name, chosen) in solutions.into_iter().chain(TREES.map(of_tree)) {
        let found = outcome(&data.paper, &chosen);
        let parameters = [("solution", Value::from(name))];
        let neither = found.situations - found.improved - found.hurt;
        for (what, unit, value) in [
            ("improved", "", found.improved as f64),
            ("hurt", "", found.hurt as f64),
            ("neither", "", neither as f64),
            ("worst", "part", found.worst),
            ("over_aioli", "part", gain_over(&data.paper, &chosen, PolicyName::Aioli).0),
            ("over_sjf", "part", gain_over(&data.paper, &chosen, PolicyName::Sjf).0),
        ] {
            report.rows.push(single(what, unit, &parameters, value));
        }
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_policies_are_counted_for_all_situations() {
        let report = table3().unwrap();
        assert_eq!(report.rows.len(), 96);
        assert_eq!(report.ratios.values().sum::<f64>(), 192.0);
    }

    #[test]
    fn the_trees_improve_as_much_as_the_oracle_nearly_and_hurt_nothing() {
        let report = table7().unwrap();
        let of = |what, who: &str| report.value(what, &[("solution", who.into())]).unwrap();
        assert_eq!((of("hurt", "compiled tree"), of("hurt", "T2")), (0.0, 0.0));
        assert!(of("improved", "compiled tree") >= 0.95 * of("improved", "oracle"));
        assert_eq!(of("improved", "oracle") + of("neither", "oracle"), 192.0);
    }
}
