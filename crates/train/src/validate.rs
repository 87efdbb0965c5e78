//! What a tree says of situations that it has not seen.

use forebay_device::SplitMix64;
use forebay_sched::PolicyName;
use forebay_select::{Feature, Tree};

use crate::learn::{Example, Shape, grow};

/// What the folds are drawn from, the repetition added. Chosen before anything was measured.
const SEED: u64 = 10_000;
/// Parts of a cross-validation.
pub const FOLDS: usize = 10;
/// The attributes of the paper's three trees: all, without the data of a file, and also without
/// the number of files.
pub const T1: [Feature; 6] = [
    Feature::IsRead,
    Feature::Files,
    Feature::FileBytes,
    Feature::Spatiality,
    Feature::IsLarge,
    Feature::DeviceRatio,
];
/// Without the data of a file.
pub const T2: [Feature; 5] =
    [Feature::IsRead, Feature::Files, Feature::Spatiality, Feature::IsLarge, Feature::DeviceRatio];
/// And without the number of files.
pub const T3: [Feature; 4] =
    [Feature::IsRead, Feature::Spatiality, Feature::IsLarge, Feature::DeviceRatio];

/// What the compiled tree may ask: as T2, and how long a request is where the scheduler is, which the
/// paper's situations all have in common.
pub const ASKED: [Feature; 6] = [
    Feature::IsRead,
    Feature::Files,
    Feature::Spatiality,
    Feature::IsLarge,
    Feature::RequestBytes,
    Feature::DeviceRatio,
];

/// The fold of each of `count` things: shuffled, of nearly equal sizes.
pub fn folds(count: usize, repetition: u64) -> Vec<usize> {
    let mut random = SplitMix64::new(SEED + repetition);
    let mut order: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        order.swap(last, random.below(last as u64 + 1) as usize);
    }
    let mut folds = vec![0; count];
    for (place, thing) in order.into_iter().enumerate() {
        folds[thing] = place % FOLDS;
    }
    folds
}

/// What trees say of every example that have not seen any of its part: one tree for each part, of
/// all examples of the other parts, and of the `always` ones.
pub fn unseen(
    examples: &[Example],
    part: &[usize],
    always: &[Example],
    asked: &[Feature],
    shape: Shape,
) -> Vec<PolicyName> {
    let parts = part.iter().max().map_or(0, |last| last + 1);
    let trees: Vec<Tree> = (0..parts)
        .map(|out| {
            let others = examples.iter().zip(part).filter(|(_, part)| **part != out);
            let seen: Vec<&Example> = others.map(|(one, _)| one).chain(always).collect();
            grow(&seen, asked, shape)
        })
        .collect();
    let choice = |(one, part): (&Example, &usize)| trees[*part].leaf(&one.features).1.policy;
    examples.iter().zip(part).map(choice).collect()
}

/// Among which shapes [`best_shape`] chooses, and by how many cross-validations; smaller trees first.
#[derive(Clone, Copy, Debug)]
pub struct Grid {
    depths: &'static [usize],
    leasts: &'static [usize],
    repetitions: u64,
}

/// For the 192 alone.
pub const GRID_PAPER: Grid = Grid { depths: &[4, 5, 6, 7, 8], leasts: &[4, 2, 1], repetitions: 3 };
/// For all that is learned from: twelve times as many.
pub const GRID: Grid = Grid { depths: &[8, 10, 12], leasts: &[8, 6, 4], repetitions: 1 };

/// The shape of a grid with which trees that have not seen a group lose least; of equals the smaller
/// one. `group` says which examples are kept together.
pub fn best_shape(examples: &[Example], group: &[usize], asked: &[Feature], grid: Grid) -> Shape {
    let groups = group.iter().max().map_or(0, |last| last + 1);
    let loss = |shape: Shape| -> f64 {
        let of_repetition = |repetition| {
            let fold = folds(groups, repetition);
            let part: Vec<usize> = group.iter().map(|group| fold[*group]).collect();
            let choices = unseen(examples, &part, &[], asked, shape);
            let losses = examples.iter().zip(&choices);
            losses.map(|(one, choice)| one.losses[crate::learn::place(*choice)]).sum::<f64>()
        };
        // Far from the repetitions that figures are taken from.
        (1000..1000 + grid.repetitions).map(of_repetition).sum()
    };
    let shapes = grid
        .depths
        .iter()
        .flat_map(|depth| grid.leasts.iter().map(|least| Shape { depth: *depth, least: *least }));
    let mut best: Option<(f64, Shape)> = None;
    for shape in shapes {
        let loss = loss(shape);
        if best.is_none_or(|(least, _)| loss < least - 1e-9) {
            best = Some((loss, shape));
        }
    }
    best.expect("the grid has shapes").1
}
