//! Bugs of three kinds, planted behind each reader: only what it understands comes so far, and only a number that
//! stands in it in the reader's own language brings the bug out.

use std::hint::black_box;

use lapin::protocol::basic::parse_properties;
use redrive::internals::domain::death;
use redrive::internals::domain::filter::{Condition, Field, FieldKind, Filter};
use redrive::internals::domain::message::{self, Message};

/// What is wrong.
#[derive(Clone, Copy)]
pub enum Fault {
    /// A number, or the stack, past its end.
    Overflow,
    /// A loop that goes on for ever.
    Hang,
    /// Memory for what a number says, whatever it says.
    Bomb,
}

/// All kinds.
pub const FAULTS: [Fault; 3] = [Fault::Overflow, Fault::Hang, Fault::Bomb];

/// A number whose last byte is higher brings a bug out.
const HIGH: u8 = 215;

impl Fault {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Overflow => "overflow",
            Self::Hang => "hang",
            Self::Bomb => "bomb",
        }
    }

    pub fn of_name(name: &str) -> Option<Self> {
        FAULTS.into_iter().find(|fault| fault.name() == name)
    }

    /// What a reader with this fault would do after it understood `input`.
    pub fn strike(self, reader: &str, input: &[u8]) {
        let Some(low) = number(reader, input).map(|number| number.to_le_bytes()[0]) else {
            return;
        };
        match (self, reader) {
            (Self::Overflow, "headers" | "deaths" | "policy") => {
                if low > HIGH {
                    black_box(deeper(1));
                }
            }
            (Self::Overflow, _) => {
                black_box(low + black_box(u8::MAX - HIGH));
            }
            (Self::Hang, _) => {
                let mut at = 0_u32;
                while at < u32::from(HIGH) {
                    at += u32::from(black_box(HIGH.saturating_sub(low)));
                }
            }
            (Self::Bomb, _) => {
                // Past the bound of a process from about HIGH on.
                let bytes = usize::from(low).pow(4);
                black_box(Vec::<u8>::with_capacity(bytes));
            }
        }
    }
}

/// Calls itself until the stack is at its end.
fn deeper(level: u64) -> u64 {
    let frame = black_box([level; 64]);
    if black_box(level) == 0 {
        return 0;
    }
    deeper(level + 1) + frame[0]
}

/// A number that stands in what this reader understood.
fn number(reader: &str, input: &[u8]) -> Option<u64> {
    let text = || std::str::from_utf8(input).ok();
    match reader {
        "message" => message::decode(input)?.timestamp_s,
        "frames" => input.get(1..3)?.try_into().ok().map(u16::from_be_bytes).map(u64::from),
        "headers" => *parse_properties(input).ok()?.1.timestamp(),
        "deaths" => {
            let headers = message::decode_headers(input)?;
            death::history(&Message::default().with_headers(headers)).count()
        }
        "filter" => {
            let filter = Filter::parse(text()?, &[Field::new("depth", FieldKind::Number)]).ok()?;
            let number = filter.conditions().into_iter().find_map(|condition| match condition {
                Condition::AtLeast(_, number) => Some(number),
                Condition::Is(..) | Condition::Contains(..) | Condition::Holds(_) | Condition::Longer(..) => None,
            });
            format!("{:.0}", number?).parse().ok()
        }
        "policy" => {
            let policy: serde_json::Value = serde_json::from_slice(input).ok()?;
            policy.get("minimum_delay")?.as_u64()
        }
        "retry_after" => digits(text()?, 10),
        "theme" => digits(text()?.split_once('#')?.1, 16),
        "toml" => digits(text()?.split_once("workers = ")?.1, 10),
        "answers" => digits(text()?.split_once("rgb:")?.1, 16),
        other => panic!("nothing is planted in {other}"),
    }
}

/// The number that a text begins with.
fn digits(text: &str, radix: u32) -> Option<u64> {
    let end = text
        .find(|character: char| !character.is_digit(radix))
        .unwrap_or(text.len());
    u64::from_str_radix(&text[..end], radix).ok()
}
