//! The ways in which trees are held against situations that they have not seen.

use forebay_sched::PolicyName;
use forebay_select::{Feature, Tree};

use crate::examples::{labelled, measured};
use crate::learn::{Example, Shape, grow, place};
use crate::reproduce::{Data, pairs};
use crate::situation::Situation;
use crate::table::Table;
use crate::validate::{FOLDS, GRID, GRID_PAPER, best_shape, folds, unseen};

/// Cross-validations from which a share is the mean.
const REPETITIONS: u64 = 10;

/// Examples with what they are kept together by.
#[derive(Clone, Debug)]
pub struct Material {
    /// Of the 192.
    pub examples: Vec<Example>,
    /// The pair of each.
    pub pair: Vec<usize>,
    /// Examples that every tree may see.
    pub always: Vec<Example>,
    /// Of the trees.
    pub shape: Shape,
    /// What they may ask.
    pub asked: Vec<Feature>,
}

impl Material {
    /// As the published tree is learned: losses as measured, made-up devices and the forwarder beside
    /// the 192.
    pub fn measured(data: &Data, asked: &[Feature]) -> Self {
        let table = data.learned_from();
        let shape = best_shape(&measured(&table), &pairs(&table), asked, GRID);
        Self {
            examples: measured(&data.paper),
            pair: pairs(&data.paper),
            always: measured(&data.beside_the_paper()),
            shape,
            asked: asked.to_vec(),
        }
    }

    /// As in AGIOS 2015: the 192 alone, and one label for both process counts of a pattern on a
    /// device.
    pub fn labelled(data: &Data, asked: &[Feature]) -> Self {
        let (examples, _) = labelled(&data.paper);
        let each: Vec<usize> = (0..examples.len()).collect();
        let shape = best_shape(&examples, &each, asked, GRID_PAPER);
        let pair = pairs(&data.paper);
        Self { examples, pair, always: Vec::new(), shape, asked: asked.to_vec() }
    }

    /// The tree of all examples.
    pub fn tree(&self) -> Tree {
        let all: Vec<&Example> = self.examples.iter().chain(&self.always).collect();
        grow(&all, &self.asked, self.shape)
    }

    /// What ten-fold cross-validation says of every example, in a repetition; examples of a pair
    /// are kept together if `is_grouped`.
    pub fn cross_validated(&self, is_grouped: bool, repetition: u64) -> Vec<PolicyName> {
        let part = if is_grouped {
            let pairs = self.pair.iter().max().map_or(0, |last| last + 1);
            let fold = folds(pairs, repetition);
            self.pair.iter().map(|pair| fold[*pair]).collect()
        } else {
            folds(self.examples.len(), repetition)
        };
        debug_assert!(part.iter().all(|part| *part < FOLDS));
        unseen(&self.examples, &part, &self.always, &self.asked, self.shape)
    }

    /// The part of the examples for which cross-validation chooses wrongly, the mean of ten.
    pub fn misclassification(&self, is_grouped: bool) -> f64 {
        let shares = (0..REPETITIONS).map(|repetition| {
            misclassified(&self.examples, &self.cross_validated(is_grouped, repetition))
        });
        shares.sum::<f64>() / REPETITIONS as f64
    }
}

/// The part of the examples for which the choice is not as good as the best.
pub fn misclassified(examples: &[Example], choices: &[PolicyName]) -> f64 {
    let is_wrong = |(one, choice): &(&Example, &PolicyName)| one.losses[place(**choice)] > 0.0;
    let wrong = examples.iter().zip(choices).filter(is_wrong).count();
    wrong as f64 / examples.len().max(1) as f64
}

/// What a tree says of every row.
pub fn choices(tree: &Tree, table: &Table) -> Vec<PolicyName> {
    table.rows.iter().map(|(one, _)| tree.leaf(&one.features()).1.policy).collect()
}

/// What trees say of rows that have not seen any row of the same part: the same pattern in
/// whatever number of processes and before whatever device, or the same device.
pub fn left_out<P: PartialEq>(
    table: &Table,
    material: &Material,
    part: impl Fn(&Situation) -> P,
) -> Vec<PolicyName> {
    let mut known: Vec<P> = Vec::new();
    let number = |(situation, _): &(Situation, _)| {
        let own = part(situation);
        known.iter().position(|one| *one == own).unwrap_or_else(|| {
            known.push(own);
            known.len() - 1
        })
    };
    let parts: Vec<usize> = table.rows.iter().map(number).collect();
    unseen(&measured(table), &parts, &[], &material.asked, material.shape)
}

/// What a tree of the situations with so many processes says of those with other ones: table and
/// choices.
pub fn other_processes(
    data: &Data,
    material: &Material,
    seen: u32,
    asked_of: u32,
) -> (Table, Vec<PolicyName>) {
    let with = |table: &Table, processes: u32| Table {
        rows: table.rows.iter().filter(|(one, _)| one.processes == processes).cloned().collect(),
    };
    let examples = measured(&with(&data.learned_from(), seen));
    let examples: Vec<&Example> = examples.iter().collect();
    let tree = grow(&examples, &material.asked, material.shape);
    let table = with(&data.paper, asked_of);
    let choices = choices(&tree, &table);
    (table, choices)
}
