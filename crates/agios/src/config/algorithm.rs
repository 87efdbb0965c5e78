//! AGIOS's scheduling algorithms, by the names that its configuration file uses.

/// What `default_algorithm` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    /// Multi-level feedback.
    Mlf,
    /// aIOLi.
    Aioli,
    /// Shortest job first.
    Sjf,
    /// Time order.
    To,
    /// Time order with aggregation.
    ToAgg,
    /// Time windows; inside one, by queue id.
    Sw,
    /// No order at all: every request is given back while it is being added.
    Noop,
    /// One window after the other for each queue id.
    Twins,
    /// Shares by weights, one a queue id.
    Wfq,
    /// One of MLF, aIOLi, SJF, TO, TO-agg and Forebay's HBRR, as fits what is seen.
    Auto,
}

impl Algorithm {
    /// All of them, in the order of AGIOS's documentation.
    pub(crate) const ALL: [Self; 10] = [
        Self::Mlf,
        Self::Aioli,
        Self::Sjf,
        Self::To,
        Self::ToAgg,
        Self::Sw,
        Self::Noop,
        Self::Twins,
        Self::Wfq,
        Self::Auto,
    ];

    /// The name in the configuration file.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Mlf => "MLF",
            Self::Aioli => "aIOLi",
            Self::Sjf => "SJF",
            Self::To => "TO",
            Self::ToAgg => "TO-agg",
            Self::Sw => "SW",
            Self::Noop => "NOOP",
            Self::Twins => "TWINS",
            Self::Wfq => "WFQ",
            Self::Auto => "DYN_TREE",
        }
    }

    /// The algorithm of that name, or what is wrong with it and what to do.
    pub(crate) fn parse(name: &[u8]) -> Result<Self, String> {
        if name == OTHER_AUTO.as_bytes() {
            return Ok(Self::Auto);
        }
        let found = Self::ALL.into_iter().find(|algorithm| algorithm.name().as_bytes() == name);
        found.ok_or_else(|| {
            let text = name.escape_ascii();
            let names = Self::ALL.map(Self::name).join(", ");
            let near = Self::ALL
                .iter()
                .find(|algorithm| algorithm.name().as_bytes().eq_ignore_ascii_case(name));
            match near {
                Some(near) => format!("\"{text}\" is written \"{}\"", near.name()),
                None => format!("\"{text}\" is no algorithm; name one of {names}"),
            }
        })
    }
}

/// AGIOS's first version had two algorithms that choose others; here a tree says where to begin, and
/// a bandit goes on from there, whichever is named.
const OTHER_AUTO: &str = "ARMED_BANDIT";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_read_and_nothing_else() {
        for algorithm in Algorithm::ALL {
            assert_eq!(Algorithm::parse(algorithm.name().as_bytes()), Ok(algorithm));
        }
        let complaint = |name: &str| Algorithm::parse(name.as_bytes()).unwrap_err();
        assert!(complaint("aioli").contains("is written \"aIOLi\""));
        assert!(complaint("CFQ").contains("name one of MLF, aIOLi"));
        assert_eq!(Algorithm::parse(b"ARMED_BANDIT"), Ok(Algorithm::Auto));
        assert!(complaint("dyn_tree").contains("is written \"DYN_TREE\""));
    }
}
