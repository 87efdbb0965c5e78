//! A table for people: columns as wide as they need to be.

use std::fmt;

/// Rows of text; the first and the last column start at their left, the others end at their right.
pub(crate) struct Columns {
    rows: Vec<Vec<String>>,
    left_out: Option<String>,
}

impl Columns {
    /// A table with these headings.
    pub(crate) fn new(headings: &[&str]) -> Self {
        let heading = headings.iter().map(|text| (*text).to_owned()).collect();
        Self { rows: vec![heading], left_out: None }
    }

    /// Adds a row, as long as the headings.
    pub(crate) fn push<const N: usize>(&mut self, row: [String; N]) {
        debug_assert_eq!(N, self.rows[0].len());
        self.rows.push(row.into());
    }

    /// Says that there are more rows, if there are.
    pub(crate) fn note_left_out(&mut self, count: usize, what: &str) {
        self.left_out = (count > 0).then(|| format!("… and {count} more {what}: --json"));
    }
}

impl fmt::Display for Columns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = self.rows[0].len() - 1;
        let width = |column: usize| {
            let widths = self.rows.iter().map(|row| row[column].chars().count());
            widths.max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..=last).map(width).collect();
        for row in &self.rows {
            let mut line = String::new();
            for (column, (text, width)) in row.iter().zip(&widths).enumerate() {
                line += &match column {
                    0 => format!("{text:<width$}"),
                    n if n == last && n > 0 => format!("  {text:<width$}"),
                    _ => format!("  {text:>width$}"),
                };
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        match &self.left_out {
            Some(text) => writeln!(f, "{text}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_text() {
        let mut columns = Columns::new(&["name", "n", "note"]);
        columns.push(["a", "100", "x"].map(str::to_owned));
        columns.push(["longer", "5", ""].map(str::to_owned));
        columns.note_left_out(3, "names");
        let expected =
            "name      n  note\na       100  x\nlonger    5\n… and 3 more names: --json\n";
        assert_eq!(columns.to_string(), expected);
    }
}
