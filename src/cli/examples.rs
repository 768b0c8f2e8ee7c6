//! How each command is typed: what its help ends with, and its page of the manual.

/// Each command with examples of it, the plainest first.
pub(super) const EXAMPLES: &[(&str, &[&str])] = &[
    (
        "attach",
        &["redrive attach https://redrive.example:8470 --token-file ~/.config/redrive/token"],
    ),
    (
        "publish",
        &[
            "redrive publish --execution order-18 --url https://example.com/hook --body-file order.json",
            "redrive publish --execution order-18 --url https://example.com/hook --header 'X-Team: shop' --dry-run",
        ],
    ),
    (
        "end",
        &["redrive end --execution order-18 --url https://example.com/hook"],
    ),
    (
        "queues",
        &[
            "redrive queues --filter 'age > 10m' --sort -age",
            "redrive queues --columns queue,state,why --no-headers",
        ],
    ),
    (
        "queue why",
        &[
            "redrive queue why redrive.order-18.0cc175b9c0f1b6a831c399e269772661",
            "redrive queue why order-18 https://example.com/hook",
        ],
    ),
    ("queue map", &["redrive queue map orders"]),
    (
        "queue browse",
        &["redrive queue browse order-18 https://example.com/hook --limit 5"],
    ),
    (
        "queue pause",
        &["redrive queue pause order-18 https://example.com/hook --reason 'they migrate until noon'"],
    ),
    (
        "queue resume",
        &["redrive queue resume order-18 https://example.com/hook"],
    ),
    (
        "queue purge",
        &["redrive queue purge order-18 https://example.com/hook --dry-run"],
    ),
    (
        "queue delete",
        &["redrive queue delete order-18 https://example.com/hook --dry-run"],
    ),
    (
        "queue rescue",
        &["redrive queue rescue order-18 https://example.com/hook"],
    ),
    (
        "queue move",
        &["redrive queue move orders.parked --to orders --rate 50 --dry-run"],
    ),
    (
        "queue skip",
        &["redrive queue skip order-18 https://example.com/hook --to dead"],
    ),
    ("endpoints", &["redrive endpoints --unavailable"]),
    ("endpoint show", &["redrive endpoint show https://example.com/hook"]),
    ("endpoint test", &["redrive endpoint test https://example.com/hook"]),
    (
        "endpoint disable",
        &["redrive endpoint disable https://example.com/hook --reason 'the contract ended'"],
    ),
    (
        "endpoint pace",
        &[
            "redrive endpoint pace https://example.com/hook --rate 50",
            "redrive endpoint pace https://example.com/hook --release",
        ],
    ),
    (
        "endpoint pause",
        &["redrive endpoint pause https://example.com/hook --reason 'the receiver is slow'"],
    ),
    ("endpoint resume", &["redrive endpoint resume https://example.com/hook"]),
    (
        "redeliver",
        &[
            "redrive redeliver https://example.com/hook",
            "redrive redeliver https://example.com/hook --rate 100 --canary 20 --canary-watch 60 --ramp 2",
            "redrive redeliver --all --dry-run",
        ],
    ),
    ("retries", &["redrive retries --within 60"]),
    (
        "notification show",
        &[
            "redrive notification show 018f2c4e-7a31-7c52-9d3b-0f1e2d3c4b5a",
            "redrive notification show order-18.3 --queue redrive.order-18.0cc175b9c0f1b6a831c399e269772661 --json",
        ],
    ),
    ("rescued list", &["redrive rescued list"]),
    (
        "rescued show",
        &["redrive rescued show 7", "redrive rescued show 7 --body > message"],
    ),
    (
        "rates",
        &[
            "redrive rates --endpoints",
            "redrive rates --url https://example.com/hook --week",
        ],
    ),
    (
        "event push",
        &["redrive event push --type order.paid --reference order-18 --payload-file order.json"],
    ),
    (
        "event list",
        &["redrive event list --type order.paid --filter 'dead = true'"],
    ),
    (
        "event show",
        &[
            "redrive event show 42",
            "redrive event show --type order.paid --reference order-18",
        ],
    ),
    (
        "event search",
        &["redrive event search 'type = order.paid and reason ~ \"timeout\"'"],
    ),
    ("event counts", &["redrive event counts"]),
    ("event history", &["redrive event history --type order.paid"]),
    (
        "event retry",
        &["redrive event retry --filter 'type = order.paid and dead = true' --rate 20"],
    ),
    (
        "event reschedule",
        &["redrive event reschedule 42 --at 2030-01-01T08:00:00Z"],
    ),
    (
        "event cancel",
        &["redrive event cancel --type order.paid --reference order-18 --dry-run"],
    ),
    ("event process", &["redrive event process --type order.paid --once"]),
    (
        "event-type show",
        &["redrive event-type show", "redrive event-type show order.paid"],
    ),
    (
        "event-type set",
        &["redrive event-type set order.paid --metadata type.json"],
    ),
    ("subscription list", &["redrive subscription list --type order.paid"]),
    (
        "subscription add",
        &[
            "redrive subscription add --type order.paid --url https://example.com/hook",
            "redrive subscription add --type order.paid --url https://example.com/hook --options '{\"cloudevents\": true}'",
        ],
    ),
    (
        "subscription remove",
        &["redrive subscription remove --type order.paid --url https://example.com/hook"],
    ),
    (
        "claim create",
        &["redrive claim create --type order.paid --ttl 300 --limit 5"],
    ),
    (
        "claim renew",
        &["redrive claim renew --type order.paid CLAIM --ttl 600"],
    ),
    ("claim release", &["redrive claim release --type order.paid CLAIM"]),
    (
        "claim done",
        &["redrive claim done --type order.paid CLAIM --reference order-18"],
    ),
    (
        "attempts",
        &[
            "redrive attempts --url https://example.com/hook --limit 20",
            "redrive attempts --follow --filter 'outcome = failed and status >= 500'",
        ],
    ),
    ("audit", &["redrive audit --limit 20"]),
    ("audit verify", &["redrive audit verify"]),
    (
        "dead list",
        &["redrive dead list --filter 'queue = orders.dlq and age < 7d' --sort -attempts"],
    ),
    ("dead groups", &["redrive dead groups --queue orders.dlq"]),
    ("dead queues", &["redrive dead queues --filter 'letters > 100'"]),
    ("dead show", &["redrive dead show 4f1d2c0a8e5b7d93f6a1c2e4b8d07f35"]),
    (
        "dead compare",
        &[
            "redrive dead compare 4f1d2c0a8e5b7d93f6a1c2e4b8d07f35 9bbb0d5e41c7f2088d6a3b1c5e9f7024",
            "redrive dead compare --group 9bbb0d5e41c7f208 --different",
        ],
    ),
    (
        "dead export",
        &["redrive dead export --filter 'queue = orders.dlq' --format csv --output letters.csv"],
    ),
    (
        "dead redrive",
        &[
            "redrive dead redrive --filter 'queue = orders.dlq' --dry-run",
            "redrive dead redrive --group 9bbb0d5e41c7f208 --rate 50 --canary 20 --canary-watch 60",
        ],
    ),
    (
        "dead discard",
        &["redrive dead discard --group 9bbb0d5e41c7f208 --reason 'orders of last year'"],
    ),
    (
        "dead restore",
        &[
            "redrive dead restore 4f1d2c0a8e5b7d93f6a1c2e4b8d07f35",
            "redrive dead restore --run 0197c5a2-7d1e-7c3a-9a51-2f6f0c1de001",
            "redrive dead restore --all --dry-run",
        ],
    ),
    (
        "dead patch",
        &[
            "redrive dead patch --group 9bbb0d5e41c7f208 --patch-file fix.json --dry-run",
            "redrive dead patch --filter 'origin = orders' --header 'tenant: t1'",
        ],
    ),
    (
        "dead edit",
        &["redrive dead edit 4f1d2c0a8e5b7d93f6a1c2e4b8d07f35 --body-file fixed.json"],
    ),
    ("run list", &["redrive run list --limit 20"]),
    ("run show", &["redrive run show 018f2c4e-7a31-7c52-9d3b-0f1e2d3c4b5a"]),
    ("run pause", &["redrive run pause 018f2c4e-7a31-7c52-9d3b-0f1e2d3c4b5a"]),
    (
        "run resume",
        &["redrive run resume 018f2c4e-7a31-7c52-9d3b-0f1e2d3c4b5a"],
    ),
    (
        "run cancel",
        &["redrive run cancel 018f2c4e-7a31-7c52-9d3b-0f1e2d3c4b5a"],
    ),
    ("expiring list", &["redrive expiring list --limit 20"]),
    (
        "expiring save",
        &["redrive expiring save jobs.018f2c4e-7a31-7c52-9d3b-0f1e2d3c4b5a.result"],
    ),
    ("expiring purge", &["redrive expiring purge --dry-run"]),
    ("expiring saves", &["redrive expiring saves"]),
    (
        "expiring restore",
        &["redrive expiring restore 018f2c4e-7a31-7c52-9d3b-0f1e2d3c4b5a --to jobs.again"],
    ),
    (
        "expiring extend",
        &["redrive expiring extend jobs.018f2c4e-7a31-7c52-9d3b-0f1e2d3c4b5a.result --ttl 86400"],
    ),
    ("job submit", &["redrive job submit --ttl 3600"]),
    (
        "job connect",
        &["redrive job connect 018f2c4e-7a31-7c52-9d3b-0f1e2d3c4b5a"],
    ),
    ("job list", &["redrive job list"]),
    (
        "job publish",
        &["redrive job publish 018f2c4e-7a31-7c52-9d3b-0f1e2d3c4b5a progress --body-file half.json"],
    ),
    ("handover", &["redrive handover --since 12h"]),
    ("theme list", &["redrive theme list"]),
    (
        "theme check",
        &["redrive theme check ~/.config/redrive/themes/mine.toml"],
    ),
    (
        "doctor",
        &[
            "redrive doctor",
            "redrive --broker amqp://ops@rabbit.example/shop doctor",
        ],
    ),
    ("store adopt", &["redrive store adopt --dry-run"]),
    ("vhost make", &["redrive vhost make"]),
    ("store backup", &["redrive store backup /var/backups/redrive.db"]),
    ("store restore", &["redrive store restore /var/backups/redrive.db"]),
    (
        "store copy",
        &["redrive store copy --to postgres://redrive@db.example/redrive"],
    ),
    ("store migrate", &["redrive store migrate --dry-run"]),
    ("alert test", &["redrive alert test on-call"]),
    (
        "policy show",
        &[
            "redrive policy show --url https://example.com/hook",
            "redrive policy show --default",
        ],
    ),
    (
        "policy set",
        &["redrive policy set --url https://example.com/hook '{\"maximum_delay\": 60}'"],
    ),
    ("policy unset", &["redrive policy unset --url https://example.com/hook"]),
    (
        "policy history",
        &["redrive policy history --url https://example.com/hook"],
    ),
    (
        "policy restore",
        &["redrive policy restore --url https://example.com/hook 2"],
    ),
    ("policy preview", &["redrive policy preview '{\"maximum_delay\": 60}'"]),
    (
        "queue-name",
        &["redrive queue-name --execution order-18 --url https://example.com/hook"],
    ),
    ("token", &["redrive token"]),
    ("listen", &["redrive listen 9000 --status 503 --fail 3"]),
    ("filters", &["redrive filters"]),
    (
        "config check",
        &["redrive config check --config /etc/redrive/config.toml"],
    ),
    ("config print", &["redrive config print --profile live"]),
    ("config init", &["redrive config init /etc/redrive/config.toml"]),
    ("config schema", &["redrive config schema > redrive.schema.json"]),
    (
        "completions",
        &["redrive completions bash > /etc/bash_completion.d/redrive"],
    ),
    (
        "man",
        &[
            "redrive man queue why | man -l -",
            "redrive man --out /usr/local/share/man/man1",
        ],
    ),
];

/// What the help of a command ends with.
pub(super) fn page(command: &str) -> Option<String> {
    let (_, lines) = EXAMPLES.iter().find(|(name, _)| *name == command)?;
    let title = if lines.len() == 1 { "Example" } else { "Examples" };
    let lines: Vec<String> = lines.iter().map(|line| format!("  {line}")).collect();
    Some(format!("{title}:\n{}", lines.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::super::{COMMANDS, Cli};
    use super::*;
    use crate::domain::dead_letter::DeadLetterId;

    /// The words of a line up to what the shell itself does with it.
    fn words(line: &str) -> Vec<std::ffi::OsString> {
        let line = line.split(" | ").next().unwrap().split(" > ").next().unwrap();
        let (mut words, mut word, mut quote) = (Vec::new(), String::new(), false);
        for character in line.chars() {
            match character {
                '\'' => quote = !quote,
                ' ' if !quote => words.push(std::mem::take(&mut word).into()),
                other => word.push(other),
            }
        }
        words.push(word.into());
        words
    }

    #[test]
    fn the_ids_of_the_examples_are_whole_as_a_command_takes_them() {
        for line in EXAMPLES.iter().flat_map(|(_, lines)| *lines) {
            let words: Vec<&str> = line.split_whitespace().collect();
            for pair in words.windows(2) {
                let word = pair[1].trim_start_matches("jobs.").trim_end_matches(".result");
                let is_id = word.len() > 5 && word.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
                if pair[0] == "--group" {
                    assert_eq!(word.len(), 16, "{line}");
                } else if is_id && !word.starts_with('-') && line.contains("redrive dead") && pair[0] != "--run" {
                    assert!(DeadLetterId::parse(word).is_some(), "{line}");
                } else if is_id && !word.starts_with('-') {
                    assert!(uuid::Uuid::parse_str(word).is_ok(), "{line}");
                }
            }
        }
    }

    #[test]
    fn every_command_has_an_example_that_can_be_typed() {
        let named: Vec<&str> = EXAMPLES.iter().map(|(name, _)| *name).collect();
        for (name, ..) in COMMANDS {
            assert_eq!(named.iter().filter(|one| one == &name).count(), 1, "{name}");
        }
        assert_eq!(named.len(), COMMANDS.len(), "none is of no command");
        for (name, lines) in EXAMPLES {
            for line in *lines {
                assert!(line.contains(name), "{line} is of {name}");
                let read = Cli::typed(words(line));
                assert!(read.is_ok(), "{line}: {}", read.err().unwrap());
            }
        }
    }
}
