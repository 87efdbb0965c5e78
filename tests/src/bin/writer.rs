//! A client that writes without end, in every way that there is, until somebody kills it.
//!
//! usage: writer ENDPOINT FOLDER FILE SEED

use forebay_client::{Bytes, Error};
use forebay_tests::{Client, Random};

fn main() -> Result<(), Error> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [endpoint, folder, name, seed] = &words[..] else {
        panic!("writer ENDPOINT FOLDER FILE SEED")
    };
    let mut client = Client::connect(&endpoint.parse().expect("an endpoint"), folder.as_ref());
    let (_, handle) = client.open(name);
    let (_, appending) = client.open_to_append(&format!("{name}-log"));
    let mut random = Random::new(seed.parse().expect("a number"));
    let bytes = random.bytes(24 << 20);
    loop {
        let at = random.below(1 << 20);
        match random.below(5) {
            0 => client.write(handle, at, &bytes)?,
            1 => client.write(handle, at, &bytes[..300_000])?,
            2 => client.write(handle, at, &bytes[..30_000])?,
            3 => {
                let ranges: Vec<_> = (0..200).map(|n| (at + n * 5000, 3000)).collect();
                client.write_list(handle, &ranges, &bytes[..600_000])?
            }
            _ => client.append(appending, &bytes[..5 << 20]).map(|_| 0)?,
        };
        if client.connection.stat(appending)?.size > Bytes::mib(64) {
            client.connection.truncate(appending, Bytes(0))?;
        }
    }
}
