//! Settings as text: `name=value` words with a space between them, for people and for a replay.
//!
//! A word that is not known makes the whole text not understood: to leave aside a limit that a
//! later version knows would be to decide differently without a word.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{self, Display, Write as _};
use core::str::FromStr;

use forebay_sched::sharing::{Rate, Tariff};

/// Words being written.
#[derive(Default)]
pub(crate) struct Speller(String);

impl Speller {
    pub(crate) fn word(&mut self, name: &str, value: impl Display) {
        let space = if self.0.is_empty() { "" } else { " " };
        // Writing to a text cannot fail.
        _ = write!(self.0, "{space}{name}={value}");
    }

    /// A word that is left out where there is nothing to say.
    pub(crate) fn word_if<T: Display>(&mut self, name: &str, value: Option<T>) {
        if let Some(value) = value {
            self.word(name, value);
        }
    }

    pub(crate) fn finish(self) -> String {
        self.0
    }
}

/// Words being read; every `take_` and `end` is `None` for what is not understood.
pub(crate) struct Words<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Words<'a> {
    pub(crate) fn of(text: &'a str) -> Option<Self> {
        let words = text.split(' ').map(|word| word.split_once('='));
        Some(Self(words.collect::<Option<_>>()?))
    }

    /// A word that may be left out.
    pub(crate) fn take_if<T: FromStr>(&mut self, name: &str) -> Option<Option<T>> {
        let Some(place) = self.0.iter().position(|(found, _)| *found == name) else {
            return Some(None);
        };
        self.0.remove(place).1.parse().ok().map(Some)
    }

    pub(crate) fn take<T: FromStr>(&mut self, name: &str) -> Option<T> {
        self.take_if(name)?
    }

    /// A number that is not zero.
    pub(crate) fn take_positive(&mut self, name: &str) -> Option<u64> {
        self.take(name).filter(|number| *number > 0)
    }

    /// Nothing is left over.
    pub(crate) fn end(self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}

/// A rate as `PER_SECOND/s+BURST`.
pub(crate) struct RateText(pub(crate) Rate);

impl Display for RateText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/s+{}", self.0.per_second, self.0.burst)
    }
}

impl FromStr for RateText {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (per_second, burst) = text.split_once("/s+").ok_or(())?;
        Ok(Self(Rate {
            per_second: per_second.parse().map_err(drop)?,
            burst: burst.parse().map_err(drop)?,
        }))
    }
}

/// A tariff as `PER_BATCH,PER_REQUEST,PER_MIB`.
pub(crate) struct TariffText(pub(crate) Tariff);

impl Display for TariffText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{},{}", self.0.per_batch, self.0.per_request, self.0.per_mib)
    }
}

impl FromStr for TariffText {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut numbers = text.splitn(3, ',').map(|number| number.parse::<u64>().map_err(drop));
        let mut next = || numbers.next().ok_or(())?;
        Ok(Self(Tariff { per_batch: next()?, per_request: next()?, per_mib: next()? }))
    }
}
