//! From nothing to the published files: one command, the same bytes everywhere.
//!
//! ```text
//! data/situations.csv   the 192 situations, and those of 32 processes
//! data/synthetic.csv    the patterns on made-up devices
//! data/forwarder.csv    at a forwarder, on the paper's devices and the made-up ones
//! data/held-out.csv     both on devices that are not learned from
//! data/tree.json        the tree: learned from the 192, the made-up devices, and the forwarder
//! ```

use forebay_prior::write_tree;
use forebay_select::Tree;

use crate::device::Device;
use crate::examples::measured;
use crate::learn::{Example, Shape, grow};
use crate::measure::{Measured, measure};
use crate::situation::{Layer, Situation};
use crate::table::Table;
use crate::validate::{ASKED, GRID, best_shape};

/// A published file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// What it is called.
    pub name: &'static str,
    /// What is in it.
    pub text: &'static str,
}

/// The tables as they are published, in the order of [`lists`].
pub const TABLES: [Published; 4] = [
    Published { name: "situations.csv", text: include_str!("../data/situations.csv") },
    Published { name: "synthetic.csv", text: include_str!("../data/synthetic.csv") },
    Published { name: "forwarder.csv", text: include_str!("../data/forwarder.csv") },
    Published { name: "held-out.csv", text: include_str!("../data/held-out.csv") },
];
/// The tree as it is compiled in.
pub const TREE: Published =
    Published { name: "tree.json", text: include_str!("../../prior/data/tree.json") };

/// The situations of each table, in its order.
pub fn lists() -> [Vec<Situation>; 4] {
    let on = |devices, processes| Situation::all(Layer::Servers, devices, processes);
    let behind = |devices| Situation::all(Layer::Forwarder, devices, &[8, 32]);
    [
        on(Device::paper(), &[8, 16]).chain(on(Device::paper(), &[32])).collect(),
        on(Device::synthetic(), &[8, 16]).collect(),
        behind(Device::learned_from()).collect(),
        on(Device::held_out(), &[8, 16]).chain(behind(Device::unseen())).collect(),
    ]
}

/// What was measured, and what of it is for learning.
#[derive(Clone, Debug, PartialEq)]
pub struct Data {
    /// The 192.
    pub paper: Table,
    /// The same patterns of 32 processes: never learned from.
    pub thirty_two: Table,
    /// Made-up devices.
    pub synthetic: Table,
    /// At a forwarder, on the paper's devices and made-up ones.
    pub forwarder: Table,
    /// The device that had no part in any choice.
    pub held_out: Table,
    /// At a forwarder, on that device and the laboratory's disk: never learned from.
    pub forwarder_unseen: Table,
}

impl Data {
    /// As it was published.
    ///
    /// # Errors
    /// As [`from_texts`](Self::from_texts).
    pub fn published() -> Result<Self, String> {
        Self::from_texts(TABLES.map(|table| table.text))
    }

    /// From the text of each table.
    ///
    /// # Errors
    /// Which table is wrong where, or does not have the situations that it should have.
    pub fn from_texts(texts: [&str; 4]) -> Result<Self, String> {
        let mut tables = Vec::new();
        for ((published, text), list) in TABLES.iter().zip(texts).zip(lists()) {
            let named = |error| format!("{}: {error}", published.name);
            let table = Table::read_csv(text).map_err(named)?;
            if !list.iter().eq(table.rows.iter().map(|(situation, _)| situation)) {
                return Err(named("it does not have the situations of the training".to_owned()));
            }
            tables.push(table);
        }
        Ok(Self::of_tables(tables.try_into().expect("as many as texts")))
    }

    /// From each table.
    pub fn of_tables([situations, synthetic, forwarder, held_out]: [Table; 4]) -> Self {
        let (paper, thirty_two) = parted(situations, |one| one.processes != 32);
        let (held_out, forwarder_unseen) = parted(held_out, |one| one.layer == Layer::Servers);
        Self { paper, thirty_two, synthetic, forwarder, held_out, forwarder_unseen }
    }

    /// All that is learned from beside the 192: the made-up devices, then the forwarder.
    pub fn beside_the_paper(&self) -> Table {
        Table { rows: self.synthetic.rows.iter().chain(&self.forwarder.rows).cloned().collect() }
    }

    /// All that is learned from: the 192, and what is beside them.
    pub fn learned_from(&self) -> Table {
        let beside = self.beside_the_paper().rows;
        Table { rows: self.paper.rows.iter().cloned().chain(beside).collect() }
    }
}

/// Those rows of which something is true, and the others.
fn parted(table: Table, is: impl Fn(&Situation) -> bool) -> (Table, Table) {
    let (yes, no) = table.rows.into_iter().partition(|(situation, _)| is(situation));
    (Table { rows: yes }, Table { rows: no })
}

/// The pair that each row of a table is of: the same pattern and device with other processes.
pub fn pairs(table: &Table) -> Vec<usize> {
    let mut known = Vec::new();
    let number = |(situation, _): &(Situation, _)| {
        let own = (situation.layer, situation.device, situation.pattern);
        known.iter().position(|one| *one == own).unwrap_or_else(|| {
            known.push(own);
            known.len() - 1
        })
    };
    table.rows.iter().map(number).collect()
}

/// The tree of the data, of the shape that validation finds best, with further examples.
pub fn learn(data: &Data, further: &[Example]) -> (Tree, Shape) {
    let table = data.learned_from();
    let examples = measured(&table);
    let shape = best_shape(&examples, &pairs(&table), &ASKED, GRID);
    let all: Vec<&Example> = examples.iter().chain(further).collect();
    (grow(&all, &ASKED, shape), shape)
}

/// Measures everything: name and text of every published file, the tree last.
pub fn reproduce(listener: &mut dyn FnMut(&Measured)) -> Vec<(&'static str, String)> {
    let lists = lists();
    let all: Vec<Situation> = lists.iter().flatten().copied().collect();
    let mut rows = measure(&all, listener).rows.into_iter();
    let tables = lists.map(|list| Table { rows: rows.by_ref().take(list.len()).collect() });
    let mut files: Vec<(&'static str, String)> =
        TABLES.iter().zip(&tables).map(|(file, table)| (file.name, table.to_csv())).collect();
    let (tree, _) = learn(&Data::of_tables(tables), &[]);
    files.push((TREE.name, write_tree(&tree)));
    files
}
