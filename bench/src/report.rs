//! From sessions to ratios.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::rows::{DURABLE, Row, Work};
use crate::session::Metrics;

/// A machine on which nothing else runs stays below.
const LOAD_AVERAGE_QUIET: f64 = 1.0;

/// Syncs for as many requests as can wait at once, in a broker that syncs before it acknowledges: one, but for the first
/// request of a trial and those that still wait at its end. What a broker syncs in the background stays below.
const SYNCS_FOR_THE_WAITING: f64 = 0.9;

/// One block: Kafka, kaas, kaas, Kafka.
pub(crate) struct Block {
    /// The machine's load average before the block.
    pub(crate) load_average: f64,
    /// Kafka's two sessions.
    pub(crate) kafka: [Metrics; 2],
    /// kaas's two sessions.
    pub(crate) kaas: [Metrics; 2],
}

/// The sessions in which syncs were counted.
pub(crate) struct Proof {
    /// Kafka's.
    pub(crate) kafka: Metrics,
    /// kaas's.
    pub(crate) kaas: Metrics,
}

/// The comparison of one row.
pub(crate) struct Comparison {
    kafka: f64,
    kaas: f64,
    /// The ratio of each block, in order of size.
    ratios: Vec<f64>,
    /// Of the same broker with itself within a block: the noise of the machine.
    control: (f64, f64),
}

/// Compares a row; the error tells which broker has no value and why.
pub(crate) fn compare(blocks: &[Block], row: &Row) -> Result<Comparison, String> {
    let value = |metrics: &Metrics| -> Result<f64, String> {
        let metrics = metrics.get(row.id).ok_or("the row did not run")?;
        match (metrics.get("error"), metrics.get(row.metric).and_then(Value::as_f64)) {
            (Some(error), _) => Err(error.to_string()),
            (None, Some(value)) => Ok(value),
            (None, None) => Err(format!("no {}", row.metric)),
        }
    };
    let both = |name: &str, sessions: &[Metrics; 2]| -> Result<[f64; 2], String> {
        let told = |error| format!("{name}: {error}");
        Ok([value(&sessions[0]).map_err(told)?, value(&sessions[1]).map_err(told)?])
    };
    let (mut kafka, mut kaas, mut ratios, mut control) = (vec![], vec![], vec![], vec![]);
    for block in blocks {
        let (a, b) = (both("Kafka", &block.kafka)?, both("kaas", &block.kaas)?);
        ratios.push((b[0] + b[1]) / (a[0] + a[1]));
        control.extend([a[1] / a[0], b[1] / b[0]]);
        kafka.extend(a);
        kaas.extend(b);
    }
    ratios.sort_by(f64::total_cmp);
    control.sort_by(f64::total_cmp);
    Ok(Comparison {
        kafka: median(&mut kafka),
        kaas: median(&mut kaas),
        control: (control[0], control[control.len() - 1]),
        ratios,
    })
}

impl Comparison {
    /// The median ratio of kaas to Kafka.
    pub(crate) fn ratio(&self) -> f64 {
        median(&mut self.ratios.clone())
    }
}

/// The middle one, or the mean of the two in the middle.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 }
}

/// Syncs for a request of a row: Kafka's and kaas's.
fn syncs(proof: Option<&Proof>, row: &Row) -> Option<[f64; 2]> {
    let proof = proof?;
    let of = |metrics: &Metrics| metrics.get(row.id)?.get("syncs_per_request")?.as_f64();
    Some([of(&proof.kafka)?, of(&proof.kaas)?])
}

/// What the counted syncs say of the row's durability, and whether they contradict it.
fn mode(proof: Option<&Proof>, row: &Row) -> (String, bool) {
    let Work::Produce { load, flush_messages } = &row.work else { return (String::new(), true) };
    let Some([kafka, kaas]) = syncs(proof, row) else { return ("SYNCS NOT COUNTED".to_owned(), true) };
    // One sync can stand for no more acknowledgements than there are requests that wait for one.
    let waiting = load.waiting() as f64;
    let fits = |syncs: f64| (syncs * waiting >= SYNCS_FOR_THE_WAITING) == (*flush_messages == DURABLE);
    let verdict = if fits(kafka) && fits(kaas) { "" } else { " NOT THE MODE OF THE ROW" };
    (format!("syncs/request {kafka:.3}, {kaas:.3}{verdict}"), verdict.is_empty())
}

/// The table and whether every limit holds.
pub(crate) fn table(blocks: &[Block], proof: Option<&Proof>, rows: &[Row]) -> (String, bool) {
    let mut text = String::new();
    let mut good = true;
    let mut line = |cells: [&str; 8]| {
        let [id, metric, kafka, kaas, ratio, spread, limit, verdict] = cells;
        let _ = writeln!(
            text,
            "{id:7} {metric:20} {kafka:>12} {kaas:>12} {ratio:>8} {spread:>15} {limit:>8}  {verdict}"
        );
    };
    line(["row", "metric", "Kafka 3.7.2", "kaas", "ratio", "blocks", "limit", "A/A, mode"]);
    for row in rows {
        let limit = row.limit.to_string();
        match compare(blocks, row) {
            Ok(comparison) => {
                let ratio = comparison.ratio();
                let (least, most) = (comparison.ratios[0], comparison.ratios[comparison.ratios.len() - 1]);
                let (mode, fits) = mode(proof, row);
                let kept = row.limit.holds(ratio) && fits;
                good &= kept;
                let verdict = format!(
                    "{} A/A {:.2}-{:.2} {mode}",
                    if kept { "ok" } else { "MISSED" },
                    comparison.control.0,
                    comparison.control.1
                );
                line([
                    row.id,
                    row.metric,
                    &short(comparison.kafka),
                    &short(comparison.kaas),
                    &format!("{ratio:.3}"),
                    &format!("{least:.3}-{most:.3}"),
                    &limit,
                    &verdict,
                ]);
            }
            Err(error) => {
                good = false;
                line([row.id, row.metric, "", "", "", "", &limit, &format!("NO RESULT: {error}")]);
            }
        }
    }
    // Later blocks come after load of our own.
    let before = blocks.first().map_or(0.0, |block| block.load_average);
    let _ = writeln!(text, "load average before: {before:.1}");
    if before > LOAD_AVERAGE_QUIET {
        let _ = writeln!(
            text,
            "THE MACHINE WAS BUSY WITH OTHER WORK: trust CPU ratios only, and those with care"
        );
    }
    (text, good)
}

/// As many digits as tell something.
pub(crate) fn short(value: f64) -> String {
    if value.abs() >= 100.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

/// Every number of every session.
pub(crate) fn raw(blocks: &[Block], proof: Option<&Proof>, rows: &[Row]) -> Value {
    let session = |metrics: &Metrics| json!(metrics);
    let blocks: Vec<Value> = blocks
        .iter()
        .map(|block| {
            json!({ "load_average": block.load_average,
                    "kafka": block.kafka.iter().map(session).collect::<Vec<_>>(),
                    "kaas": block.kaas.iter().map(session).collect::<Vec<_>>() })
        })
        .collect();
    let rows: Vec<Value> = rows
        .iter()
        .map(|row| json!({ "id": row.id, "title": row.title, "metric": row.metric, "limit": row.limit.to_string() }))
        .collect();
    let proof = proof.map(|proof| json!({ "kafka": proof.kafka, "kaas": proof.kaas }));
    json!({ "rows": rows, "proof": proof, "blocks": blocks })
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;
    use crate::rows::{self, Limit};

    fn session(value: f64) -> Metrics {
        Metrics::from([("IDLE", Map::from_iter([("idle_mib".to_owned(), value.into())]))])
    }

    fn row(limit: Limit) -> Vec<Row> {
        let mut rows = rows::all();
        rows.retain(|row| row.id == "IDLE");
        rows[0].limit = limit;
        rows
    }

    #[test]
    fn ratios_are_within_a_block_and_the_median_counts() {
        let block = |kaas: f64| Block {
            load_average: 0.0,
            kafka: [session(100.0), session(300.0)],
            kaas: [session(kaas), session(kaas)],
        };
        let blocks = [block(20.0), block(40.0), block(100.0)];
        let comparison = compare(&blocks, &row(Limit::None)[0]).unwrap();
        assert_eq!(comparison.ratio(), 0.2);
        assert_eq!((comparison.kafka, comparison.kaas), (200.0, 40.0));
        assert_eq!(comparison.control, (1.0, 3.0));
        assert!(table(&blocks, None, &row(Limit::AtMost(0.2))).1);
        assert!(!table(&blocks, None, &row(Limit::AtMost(0.19))).1);
    }

    #[test]
    fn too_few_syncs_are_not_durable_and_any_are_not_page_cache() {
        let rows = rows::all();
        let proven = |id: &str, syncs: f64| {
            let row = rows.iter().find(|row| row.id == id).unwrap();
            let metrics = || {
                Metrics::from([(
                    row.id,
                    Map::from_iter([("syncs_per_request".to_owned(), Value::from(syncs))]),
                )])
            };
            mode(Some(&Proof { kafka: metrics(), kaas: metrics() }), row).1
        };
        assert!(proven("P6", 1.0) && !proven("P6", 0.5));
        assert!(proven("P5", 1.0 / 64.0) && !proven("P5", 0.001));
        assert!(proven("P1", 0.001) && !proven("P1", 0.5));
    }

    #[test]
    fn a_row_that_failed_is_no_success() {
        let failed = Metrics::from([("IDLE", Map::from_iter([("error".to_owned(), "no".into())]))]);
        let block =
            Block { load_average: 0.0, kafka: [session(1.0), session(1.0)], kaas: [session(1.0), failed] };
        let (text, good) = table(&[block], None, &row(Limit::None));
        assert!(!good && text.contains("NO RESULT: kaas"), "{text}");
    }
}
