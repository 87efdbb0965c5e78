//! Requests as comma-separated values (RFC 4180), one line each.

use alloc::format;
use alloc::string::{String, ToString as _};

use forebay_sched::Access;
use forebay_units::Timestamp;

use crate::catalog::Catalog;
use crate::lives::Life;

/// The first line: what the columns are. Times are in nanoseconds since the start of the recording
/// process; a field that does not apply is empty.
pub const CSV_COLUMNS: &str = "seq,client,client_name,class,class_name,file,file_name,access,offset,length,\
     arrived_ns,ready_ns,dispatched_ns,ended_ns,batch,moved,errno,end";

/// One request, without the end of the line. A request for a whole file, as an append is, has
/// neither offset nor length.
pub fn csv_line(catalog: &Catalog, life: &Life) -> String {
    let request = &life.request;
    let access = match request.access {
        Access::Read => "read",
        Access::Write => "write",
        Access::Alone => "alone",
        Access::Sync => "sync",
    };
    let is_data = matches!(request.access, Access::Read | Access::Write);
    let of_data = |number: u64| if is_data { number.to_string() } else { String::new() };
    let time = |at: Option<Timestamp>| number(at.map(|at| at.0));
    format!(
        "{},{},{},{},{},{},{},{access},{},{},{},{},{},{},{},{},{},{}",
        number(life.seq),
        request.client.0,
        quoted(&catalog.client_name(request.client)),
        request.class.0,
        quoted(&catalog.class_name(request.class)),
        request.file.0,
        quoted(&catalog.file_name(request.file)),
        of_data(request.range.start.0),
        of_data(request.range.length().0),
        life.arrived.0,
        time(life.ready),
        time(life.dispatched),
        time(life.ended),
        number(life.batch),
        life.moved.0,
        life.errno,
        life.end.as_str(),
    )
}

fn number(number: Option<u64>) -> String {
    number.map(|number| number.to_string()).unwrap_or_default()
}

/// A text as a field: in quotes where it has to be.
fn quoted(text: &str) -> String {
    match text.contains(['"', ',', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_needs_quotes_gets_them() {
        assert_eq!(quoted("/data/a b"), "/data/a b");
        assert_eq!(quoted("a,\"b\"\n"), "\"a,\"\"b\"\"\n\"");
    }
}
