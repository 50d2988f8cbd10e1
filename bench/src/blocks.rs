//! Blocks of Kafka, kaas, kaas, Kafka for loads that are no rows of a session, and what is printed of them.

use std::collections::BTreeMap;

use anyhow::Result;

use crate::broker::System;
use crate::report::{median, short};

/// Kafka, kaas, kaas, Kafka.
const ORDER: [System; 4] = [System::Kafka, System::Kaas, System::Kaas, System::Kafka];

/// What one load on one broker gave, in the order in which it is shown: names with units, and values.
pub(crate) type Figures = Vec<(&'static str, f64)>;

/// Runs blocks and prints the figures of each session, and then of each figure the ratios of kaas to Kafka.
pub(crate) fn run(
    title: &str,
    blocks: usize,
    mut session: impl FnMut(System) -> Result<Figures>,
) -> Result<()> {
    let mut measured: Vec<[Figures; 4]> = Vec::with_capacity(blocks);
    for _ in 0..blocks {
        let mut block: [Figures; 4] = Default::default();
        for (system, figures) in ORDER.into_iter().zip(&mut block) {
            *figures = session(system)?;
            show(title, system, figures);
        }
        measured.push(block);
    }
    for (name, ratios) in ratios(&measured) {
        let mut sorted = ratios.clone();
        let middle = median(&mut sorted);
        println!(
            "{title}: {name}: kaas / Kafka {middle:.3} ({:.3}-{:.3})",
            sorted[0],
            sorted[sorted.len() - 1]
        );
    }
    Ok(())
}

/// Prints the figures of one session.
pub(crate) fn show(title: &str, system: System, figures: &Figures) {
    let shown: Vec<_> = figures.iter().map(|(name, value)| format!("{name} {}", short(*value))).collect();
    println!("{title}: {}: {}", system.name(), shown.join(", "));
}

/// Of each figure the ratio within each block, unless it is one of nothing.
fn ratios(blocks: &[[Figures; 4]]) -> BTreeMap<&'static str, Vec<f64>> {
    let mut ratios: BTreeMap<_, Vec<f64>> = BTreeMap::new();
    for block in blocks {
        for (at, (name, _)) in block[0].iter().enumerate() {
            let sum =
                |sessions: [usize; 2]| -> f64 { sessions.iter().map(|session| block[*session][at].1).sum() };
            if sum([0, 3]) > 0.0 {
                ratios.entry(*name).or_default().push(sum([1, 2]) / sum([0, 3]));
            }
        }
    }
    ratios
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_of_both_sessions_within_a_block() {
        let block = |kafka: f64, kaas: f64| [kafka, kaas, kaas * 3.0, kafka].map(|value| vec![("s", value)]);
        let ratios = ratios(&[block(10.0, 1.0), block(2.0, 2.0)]);
        assert_eq!(ratios["s"], [0.2, 2.0]);
        assert!(self::ratios(&[block(0.0, 1.0)]).is_empty());
    }
}
