//! WFQ's file of weights: one number a queue id, from 0 on, between blanks or on lines of its own.

/// The largest weight.
pub(crate) const WEIGHT_MAX: u32 = 1_000_000;

/// Most weights in a file, and so most queue ids.
pub(crate) const WEIGHTS_MAX: usize = 64_999;

/// Reads weights for at least `queues` queue ids, or says at which one the file is wrong and what
/// to write there.
pub(crate) fn parse(text: &[u8], queues: usize) -> Result<Vec<u32>, String> {
    let words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let mut weights = Vec::new();
    for word in words {
        let queue = weights.len();
        if queue == WEIGHTS_MAX {
            return Err(format!("holds more than {WEIGHTS_MAX} weights; remove the others"));
        }
        let weight = std::str::from_utf8(word).ok().and_then(|word| word.parse::<u32>().ok());
        let Some(weight) = weight.filter(|weight| (1..=WEIGHT_MAX).contains(weight)) else {
            return Err(format!(
                "the weight of queue {queue} is {}; write an integer from 1 to {WEIGHT_MAX}",
                word.escape_ascii()
            ));
        };
        weights.push(weight);
    }
    if weights.len() < queues {
        return Err(format!(
            "holds {} weights, and agios_init was told of {queues} queues; add one for each of the others",
            weights.len()
        ));
    }
    Ok(weights)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_bad_file_is_refused_by_queue() {
        assert_eq!(parse(b"3\n1 2\n", 2), Ok(vec![3, 1, 2]));
        for (text, part) in [
            ("3", "holds 1 weights"),
            ("", "holds 0 weights"),
            ("3 0", "queue 1 is 0;"),
            ("-3 1", "queue 0 is -3;"),
            ("3 x", "queue 1 is x;"),
            ("1.5 1", "queue 0 is 1.5;"),
            ("1 1000001", "from 1 to 1000000"),
            ("1 99999999999999999999", "queue 1 is"),
        ] {
            let what = parse(text.as_bytes(), 2).expect_err(text);
            assert!(what.contains(part), "{text}: {what}");
        }
        assert!(parse("1 ".repeat(WEIGHTS_MAX + 1).as_bytes(), 1).is_err());
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(text in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = parse(&text, 3);
        }
    }
}
