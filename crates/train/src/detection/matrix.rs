//! What was said against what was true.

use std::fmt;

/// How often each thing was said when each was true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matrix<const N: usize> {
    /// What can be true.
    pub names: [&'static str; N],
    /// By what is true and what was said; the last column is "nothing".
    pub counts: [[u64; N]; N],
    /// When nothing was said.
    pub silent: [u64; N],
}

impl<const N: usize> Matrix<N> {
    /// Nothing was said yet.
    pub const fn new(names: [&'static str; N]) -> Self {
        Self { names, counts: [[0; N]; N], silent: [0; N] }
    }

    /// Something was said, or nothing.
    pub fn add(&mut self, is: usize, said: Option<usize>) {
        match said {
            Some(said) => self.counts[is][said] += 1,
            None => self.silent[is] += 1,
        }
    }

    /// How often anything was asked.
    pub fn total(&self) -> u64 {
        self.counts.iter().flatten().chain(&self.silent).sum()
    }

    /// How often the truth was said when each thing was true; 1 if it never was.
    pub fn rates(&self) -> [f64; N] {
        core::array::from_fn(|row| {
            let all = self.counts[row].iter().sum::<u64>() + self.silent[row];
            if all == 0 { 1.0 } else { self.counts[row][row] as f64 / all as f64 }
        })
    }

    /// How often the truth was said, of all times; 1 if it was never asked.
    pub fn accuracy(&self) -> f64 {
        let right: u64 = (0..N).map(|n| self.counts[n][n]).sum();
        if self.total() == 0 { 1.0 } else { right as f64 / self.total() as f64 }
    }
}

impl<const N: usize> fmt::Display for Matrix<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<18}", "is / was called")?;
        self.names.iter().try_for_each(|name| write!(f, " {name:>16}"))?;
        writeln!(f, " {:>9} {:>8}", "nothing", "right")?;
        for (row, (name, rate)) in self.names.iter().zip(self.rates()).enumerate() {
            write!(f, "{name:<18}")?;
            self.counts[row].iter().try_for_each(|count| write!(f, " {count:>16}"))?;
            let right = rate * 100.0;
            writeln!(f, " {:>9} {right:>6.2} %", self.silent[row])?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_not_the_truth() {
        let mut matrix = Matrix::new(["a", "b"]);
        assert_eq!(matrix.accuracy(), 1.0);
        for said in [Some(0), Some(1), None, Some(0)] {
            matrix.add(0, said);
        }
        assert_eq!((matrix.total(), matrix.accuracy()), (4, 0.5));
        assert!(matrix.to_string().lines().nth(1).unwrap().ends_with("50.00 %"));
    }
}
