//! The cells of the table: policies as rows, work as columns.

use forebay_units::Direction;
use serde_json::{Value, json};

/// One request, in bytes.
pub(crate) const PIECE_BYTES: u64 = 8 << 10;

/// What orders the requests, with AGIOS's words for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Row {
    Noop,
    To,
    ToAgg,
    Sjf,
    Mlf,
    Aioli,
    Twins,
    Wfq,
    Sw,
}

impl Row {
    pub(crate) const ALL: [Self; 9] = [
        Self::Noop,
        Self::To,
        Self::ToAgg,
        Self::Sjf,
        Self::Mlf,
        Self::Aioli,
        Self::Twins,
        Self::Wfq,
        Self::Sw,
    ];

    /// As AGIOS writes it, and the driver reads it.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Noop => "NOOP",
            Self::To => "TO",
            Self::ToAgg => "TO-agg",
            Self::Sjf => "SJF",
            Self::Mlf => "MLF",
            Self::Aioli => "aIOLi",
            Self::Twins => "TWINS",
            Self::Wfq => "WFQ",
            Self::Sw => "SW",
        }
    }
}

/// Who submits what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) files: u64,
    pub(crate) producers: u64,
    /// Most requests in flight.
    pub(crate) window: u64,
    /// Pieces of each of 32 clients in a round; `None` for work that is not strided.
    pub(crate) pieces: Option<u64>,
}

const fn contiguous(files: u64, producers: u64, window: u64) -> Column {
    Column { files, producers, window, pieces: None }
}

const fn strided(pieces: u64) -> Column {
    Column { files: 1, producers: 2, window: 1024, pieces: Some(pieces) }
}

/// The columns of the table.
pub(crate) const COLUMNS: [Column; 7] = [
    contiguous(1, 1, 1),
    contiguous(1, 1, 1024),
    contiguous(1, 2, 1024),
    contiguous(32, 2, 1024),
    contiguous(1024, 2, 1024),
    strided(2),
    strided(32),
];

/// Columns that are alike, for the smallest ratio of each kind.
pub(crate) const KINDS: [(&str, &[usize]); 4] = [
    ("ping_pong", &[0]),
    ("one_producer", &[1]),
    ("two_producers", &[2, 3, 4]),
    ("strided", &[5, 6]),
];

impl Column {
    pub(crate) fn is_ping_pong(&self) -> bool {
        self.window == 1
    }

    fn pattern(&self) -> String {
        match self.pieces {
            Some(pieces) => format!("strided, m={pieces}"),
            None => "contiguous".to_owned(),
        }
    }
}

/// Which library does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Library {
    /// `libforebay`, through `forebay.h`.
    Forebay,
    /// The drop-in `libagios`, through `agios.h`.
    Agios,
}

impl Library {
    pub(crate) const ALL: [Self; 2] = [Self::Forebay, Self::Agios];
}

/// One cell: what is measured in a process of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    /// The library that its program is linked with.
    pub(crate) linked: Library,
    pub(crate) row: Row,
    /// Index into [`COLUMNS`].
    pub(crate) column: usize,
    pub(crate) direction: Direction,
    /// Whether even a request that finds an empty queue goes through the policy.
    pub(crate) has_no_bypass: bool,
}

impl Cell {
    /// Of the table itself: reads, with the library's defaults.
    pub(crate) fn of_table(library: Library, row: Row, column: usize) -> Self {
        Self { linked: library, row, column, direction: Direction::Read, has_no_bypass: false }
    }

    pub(crate) fn work(&self) -> &'static Column {
        &COLUMNS[self.column]
    }

    /// Whether AGIOS was measured with exactly this.
    pub(crate) fn is_of_table(&self) -> bool {
        *self == Self::of_table(self.linked, self.row, self.column)
    }

    /// All cells of these libraries, in the order of the report.
    pub(crate) fn all(libraries: &[Library]) -> Vec<Self> {
        let table = |library| {
            Row::ALL.into_iter().flat_map(move |row| {
                (0..COLUMNS.len()).map(move |column| Self::of_table(library, row, column))
            })
        };
        let mut cells: Vec<Self> = table(Library::Forebay).collect();
        // 32 files, two producers: writes, and the way through the policy for every request.
        let beside = Row::ALL.map(|row| Self::of_table(Library::Forebay, row, 3));
        cells.extend(beside.map(|cell| Self { direction: Direction::Write, ..cell }));
        cells.extend(beside.map(|cell| Self { has_no_bypass: true, ..cell }));
        if libraries.contains(&Library::Agios) {
            cells.extend(table(Library::Agios).filter(Self::ends_by_itself));
        }
        cells
    }

    /// Not what is paced by time, as AGIOS's TWINS is: each request waits for its window of 1 ms, so
    /// a million of them take a quarter of an hour if only one is in flight.
    fn ends_by_itself(&self) -> bool {
        !(self.row == Row::Twins && self.work().is_ping_pong())
    }

    /// What tells it from other cells.
    pub(crate) fn parameters(&self) -> Vec<(&'static str, Value)> {
        let work = self.work();
        let library = match self.linked {
            Library::Forebay => "libforebay",
            Library::Agios => "libagios",
        };
        vec![
            ("library", json!(library)),
            ("policy", json!(self.row.as_str())),
            ("operation", json!(if self.direction == Direction::Write { "write" } else { "read" })),
            ("bypass", json!(if self.has_no_bypass { "never" } else { "when idle" })),
            ("files", json!(work.files)),
            ("producers", json!(work.producers)),
            ("window", json!(work.window)),
            ("pattern", json!(work.pattern())),
        ]
    }

    /// The driver's arguments.
    pub(crate) fn arguments(&self, requests: u64) -> Vec<String> {
        let work = self.work();
        let mut arguments = work_arguments(self.row, work, requests);
        arguments.push("mode=cell".to_owned());
        arguments.push(format!("writes={}", u8::from(self.direction == Direction::Write)));
        arguments.push(format!("no_bypass={}", u8::from(self.has_no_bypass)));
        arguments
    }
}

/// The driver's arguments that say who submits what.
pub(crate) fn work_arguments(row: Row, work: &Column, requests: u64) -> Vec<String> {
    vec![
        format!("policy={}", row.as_str()),
        format!("files={}", work.files),
        format!("producers={}", work.producers),
        format!("window={}", work.window),
        format!("pieces={}", work.pieces.unwrap_or(0)),
        format!("requests={requests}"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_comes_first_and_whole() {
        let cells = Cell::all(&Library::ALL[..1]);
        assert!(cells[..63].iter().all(Cell::is_of_table));
        assert!(cells[63..].iter().all(|cell| !cell.is_of_table()));
        assert_eq!(cells[62].parameters()[7], ("pattern", json!("strided, m=32")));
    }

    #[test]
    fn every_column_is_of_one_kind() {
        let mut columns: Vec<usize> =
            KINDS.iter().flat_map(|(_, columns)| *columns).copied().collect();
        columns.sort_unstable();
        assert_eq!(columns, (0..COLUMNS.len()).collect::<Vec<_>>());
    }
}
