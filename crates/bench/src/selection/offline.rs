//! Trees against the published tables.

use forebay_sched::PolicyName;
use forebay_train::Table;
use forebay_train::evaluate::{Outcome, gain_over, oracle, outcome};
use forebay_train::examples::measured;
use forebay_train::protocol::{Material, choices, left_out, misclassified, other_processes};
use forebay_train::reproduce::Data;
use forebay_train::validate::{ASKED, T2};
use serde_json::Value;

use crate::report::{Report, Row};

/// Adds all that the tables say.
pub(super) fn report(report: &mut Report, data: &Data) {
    let material = Material::measured(data, &ASKED);
    let tree = forebay_prior::default_tree();
    let chosen = choices(&tree, &data.paper);
    let best = outcome(&data.paper, &oracle(&data.paper));
    let own = outcome(&data.paper, &chosen);

    let share = |count: usize, of: &Outcome| Some(count as f64 / of.situations as f64);
    let labelled = Material::labelled(data, &T2);
    report.ratio("misclassification_plain_cv", Some(material.misclassification(false)));
    report.ratio("misclassification_grouped_cv", Some(material.misclassification(true)));
    report.ratio("misclassification_plain_cv_one_label", Some(labelled.misclassification(false)));
    report.ratio("misclassification_grouped_cv_one_label", Some(labelled.misclassification(true)));
    report.ratio("within_5pct_of_oracle", share(own.close, &own));
    report.ratio("hurt_over_10pct", Some(own.hurt as f64));
    report.ratio("worst", Some(own.worst));
    report.ratio("improved_over_10pct", Some(own.improved as f64));
    report.ratio("improved_over_10pct_oracle", Some(best.improved as f64));
    report.ratio("regret_mean", Some(own.regret_mean));
    report.ratio("regret_p95", Some(own.regret_p95));
    report.ratio("speedup_geomean", Some(own.speedup));
    for (policy, key) in
        [(PolicyName::Aioli, "aioli"), (PolicyName::Sjf, "sjf"), (PolicyName::To, "to")]
    {
        let (most, mean) = gain_over(&data.paper, &chosen, policy);
        report.ratio(format!("max_gain_over_{key}"), Some(most));
        report.ratio(format!("geomean_over_{key}"), Some(mean));
    }

    let grouped = material.cross_validated(true, 0);
    let plain = material.cross_validated(false, 0);
    let all = data.learned_from();
    let patterns = left_out(&all, &material, |one| one.pattern);
    let devices = left_out(&all, &material, |one| one.device);
    let (at_16, from_8) = other_processes(data, &material, 8, 16);
    let (at_8, from_16) = other_processes(data, &material, 16, 8);
    let held_out = choices(&tree, &data.held_out);
    let thirty_two = choices(&tree, &data.thirty_two);
    let forwarder = choices(&tree, &data.forwarder);
    let unseen = choices(&tree, &data.forwarder_unseen);
    for (name, table, chosen) in [
        ("the 192 themselves", &data.paper, &chosen),
        ("ten-fold", &data.paper, &plain),
        ("ten-fold, twins together", &data.paper, &grouped),
        ("pattern left out", &all, &patterns),
        ("device left out", &all, &devices),
        ("8 processes, asked of 16", &at_16, &from_8),
        ("16 processes, asked of 8", &at_8, &from_16),
        ("8 and 16, asked of 32", &data.thirty_two, &thirty_two),
        ("held-out device", &data.held_out, &held_out),
        ("at a forwarder", &data.forwarder, &forwarder),
        ("at a forwarder, devices not learned from", &data.forwarder_unseen, &unseen),
        ("oracle", &data.paper, &oracle(&data.paper)),
        ("aIOLi only", &data.paper, &vec![PolicyName::Aioli; data.paper.rows.len()]),
        ("SJF only", &data.paper, &vec![PolicyName::Sjf; data.paper.rows.len()]),
    ] {
        rows(report, name, table, chosen);
    }
}

/// What choices come to, as rows.
pub(crate) fn rows(report: &mut Report, name: &str, table: &Table, chosen: &[PolicyName]) {
    let found = outcome(table, chosen);
    let parameters = [("choices", Value::from(name))];
    let wrong = misclassified(&measured(table), chosen);
    for (what, unit, value) in [
        ("situations", "", found.situations as f64),
        ("wrong", "part", wrong),
        ("within_5pct", "part", found.close as f64 / found.situations.max(1) as f64),
        ("improved", "", found.improved as f64),
        ("hurt", "", found.hurt as f64),
        ("worst", "part", found.worst),
        ("regret_mean", "part", found.regret_mean),
        ("regret_p95", "part", found.regret_p95),
        ("speedup", "", found.speedup),
    ] {
        report.rows.push(Row::median(what, unit, &parameters, &[value]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_figures_hold() {
        let mut found = Report::new("selection");
        let data = Data::published().unwrap();
        let tree = forebay_prior::default_tree();
        rows(&mut found, "own", &data.paper, &choices(&tree, &data.paper));
        rows(&mut found, "held-out", &data.held_out, &choices(&tree, &data.held_out));
        let value = |what, whose: &str| found.value(what, &[("choices", whose.into())]).unwrap();
        assert!(value("within_5pct", "own") >= 0.95);
        assert!(value("within_5pct", "held-out") >= 0.95);
        assert_eq!((value("hurt", "own"), value("hurt", "held-out")), (0.0, 0.0));
        let oracle = outcome(&data.paper, &oracle(&data.paper)).improved as f64;
        assert!(value("improved", "own") >= 0.95 * oracle);
    }
}
