//! What AGIOS v2 did in each cell, and what is wanted beside it.
//!
//! Measured on this kind of machine with the same work: medians of three, in thousand requests a
//! second. "T" stands where it did not finish in 20 seconds.

use serde_json::{Value, json};

use super::cell::{COLUMNS, Row};

/// AGIOS in one cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Agios {
    /// It finished, at so many thousand requests a second.
    Finished(f64),
    /// It finished at this rate in some runs, and not at all in others.
    Sometimes(f64),
    /// It did not finish.
    Never,
}

use Agios::{Finished as F, Never as T, Sometimes as S};

/// By row and column, in the order of [`Row::ALL`] and [`COLUMNS`].
const MEASURED: [[Agios; COLUMNS.len()]; Row::ALL.len()] = [
    [F(3232.0), F(3364.0), F(2885.0), F(2924.0), F(1601.0), F(2950.0), F(3030.0)],
    [F(39.0), F(1238.0), F(1275.0), F(1397.0), F(716.0), F(1308.0), F(1403.0)],
    [F(39.0), F(1603.0), F(202.0), F(1286.0), F(211.0), F(330.0), F(1259.0)],
    [F(38.0), F(1552.0), F(302.0), F(1486.0), F(150.0), F(465.0), F(1327.0)],
    [F(37.0), F(733.0), S(55.0), F(921.0), F(1136.0), T, F(51.0)],
    [F(37.0), F(1157.0), S(129.0), F(1673.0), F(150.0), S(48.0), S(34.0)],
    [T, F(254.0), F(243.0), F(251.0), F(254.0), F(249.0), F(250.0)],
    [F(36.0), F(1205.0), F(1283.0), F(1125.0), F(710.0), F(1275.0), F(1005.0)],
    [F(38.0), F(181.0), F(194.0), F(181.0), F(146.0), F(197.0), F(184.0)],
];

/// Below this, AGIOS is slow enough for five times as much to be wanted.
const SLOW: f64 = 1_000.0;

/// What AGIOS did in a cell.
pub(crate) fn measured(row: Row, column: usize) -> Agios {
    MEASURED[row as usize][column]
}

impl Agios {
    /// Thousand requests a second, where it finished.
    pub(crate) fn rate(self) -> Option<f64> {
        match self {
            Self::Finished(rate) | Self::Sometimes(rate) => Some(rate),
            Self::Never => None,
        }
    }

    /// As the table shows it.
    pub(crate) fn shown(self) -> Value {
        match self {
            Self::Finished(rate) => json!(rate),
            Self::Sometimes(rate) => json!(format!("{rate}, T")),
            Self::Never => json!("T"),
        }
    }
}

/// How many times AGIOS's rate is wanted; `None` where it never finished, and to finish is enough.
pub(crate) fn target(row: Row, column: usize) -> Option<f64> {
    let rate = measured(row, column).rate()?;
    Some(match row {
        Row::Noop => 1.0,
        _ if COLUMNS[column].is_ping_pong() => 10.0,
        _ if rate < SLOW => 5.0,
        _ => 2.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(row: Row) -> [Option<f64>; COLUMNS.len()] {
        core::array::from_fn(|column| target(row, column))
    }

    #[test]
    fn targets_follow_from_what_agios_did() {
        assert_eq!(targets(Row::Noop), [Some(1.0); 7]);
        let [ten, five, two] = [10.0, 5.0, 2.0].map(Some);
        assert_eq!(targets(Row::To), [ten, two, two, two, five, two, two]);
        assert_eq!(targets(Row::Mlf), [ten, five, five, five, two, None, five]);
        assert_eq!(targets(Row::Twins), [None, five, five, five, five, five, five]);
    }

    #[test]
    fn what_did_not_finish_is_said() {
        let shown = |row, column| measured(row, column).shown().to_string();
        assert_eq!(shown(Row::Mlf, 5), "\"T\"");
        assert_eq!(shown(Row::Aioli, 2), "\"129, T\"");
        assert_eq!(shown(Row::Sw, 0), "38.0");
    }
}
