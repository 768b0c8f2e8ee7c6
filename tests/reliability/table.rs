//! The table of the rows, as `docs/reliability.md` has it.

use std::fmt::Write as _;

use serde_json::Value;

/// Markdown, of an array of rows as `tests/reliability/run` leaves them.
pub fn table(rows: &Value) -> String {
    let mut rows: Vec<&Value> = rows.as_array().map(|rows| rows.iter().collect()).unwrap_or_default();
    rows.sort_by_key(|row| row["order"].as_u64());
    let mut text = String::from(
        "| faults | on | made | published | lost | out of order | repeated, most of one queue (allowed) | lost by the database | \
         until messages flow again, median / most | hands |\n|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for row in &rows {
        text += &line(row);
    }
    let sum = |name: &str| rows.iter().filter_map(|row| row[name].as_u64()).sum::<u64>();
    let _ = writeln!(
        text,
        "| **all** | | {} | {} | {} | {} | {} | | | {} |",
        thousands(sum("made")),
        thousands(sum("published")),
        sum("lost"),
        sum("reordered"),
        thousands(sum("repeated")),
        sum("hands"),
    );
    text
}

/// Markdown, of the samples of the long run: a line an hour.
pub fn curve(rows: &Value) -> String {
    let mut text = String::from(
        "| after | delivered | memory | open files | threads | queues | rows in all tables |\n|---|---|---|---|---|---|---|\n",
    );
    let samples = rows
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|row| row["samples"].as_array());
    for sample in samples.flatten() {
        let number = |name: &str| sample[name].as_u64().unwrap_or_default();
        let _ = writeln!(
            text,
            "| {} h | {} | {} MiB | {} | {} | {} | {} |",
            number("hour"),
            thousands(number("delivered")),
            number("memory_bytes") >> 20,
            number("files"),
            number("threads"),
            number("queues"),
            number("rows"),
        );
    }
    text
}

/// What the README says: nothing but sums of the rows.
pub fn in_one_line(rows: &Value) -> String {
    let rows = rows.as_array().map(Vec::as_slice).unwrap_or_default();
    let sum = |name: &str| thousands(rows.iter().filter_map(|row| row[name].as_u64()).sum());
    format!(
        "{} faults on real servers in {} notifications: {} lost, {} out of order",
        sum("made"),
        sum("published"),
        sum("lost"),
        sum("reordered"),
    )
}

fn line(row: &Value) -> String {
    let text = |name: &str| row[name].as_str().unwrap_or_default();
    let number = |name: &str| row[name].as_u64().unwrap_or_default();
    let recovery = match (row["recovery_median_ms"].as_u64(), row["recovery_most_ms"].as_u64()) {
        (Some(median), Some(most)) => format!("{} / {}", seconds(median), seconds(most)),
        _ => "–".to_owned(),
    };
    let by_the_database = row["lost_by_the_database_bytes"].as_u64();
    format!(
        "| {} | {} | {} | {} | {} | {} | {}, {} ({}) | {} | {} | {} |\n",
        text("faults"),
        text("on"),
        number("made"),
        thousands(number("published")),
        number("lost"),
        number("reordered") + number("otherwise_wrong"),
        thousands(number("repeated")),
        number("most_of_one_queue"),
        number("allowed_of_one_queue"),
        by_the_database.map_or_else(
            || "–".to_owned(),
            |bytes| format!("{} KiB of its log", bytes.div_ceil(1024))
        ),
        recovery,
        number("hands"),
    )
}

fn seconds(milliseconds: u64) -> String {
    format!("{}.{} s", milliseconds / 1000, milliseconds % 1000 / 100)
}

fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[test]
fn the_table_is_printed() {
    let row = serde_json::json!([{"order": 1, "faults": "kills", "on": "RabbitMQ", "made": 2, "published": 12_345, "recovery_most_ms": 1_250,
        "recovery_median_ms": 900, "repeated": 1, "most_of_one_queue": 1, "allowed_of_one_queue": 2}]);
    let text = table(&row);
    let line = "| kills | RabbitMQ | 2 | 12,345 | 0 | 0 | 1, 1 (2) | – | 0.9 s / 1.2 s | 0 |";
    assert!(text.contains(line), "{text}");
    assert!(text.contains("| **all** | | 2 | 12,345 |"), "{text}");
    if let Ok(path) = std::env::var("REDRIVE_RELIABILITY_TABLE") {
        let rows = std::fs::read_to_string(path).unwrap();
        println!("\n{}", table(&serde_json::from_str(&rows).unwrap()));
    }
}
