//! An alert as it is written: JSON for programs, a few lines for chats.

use serde::Serialize;
use serde_json::json;

use super::Chat;
use crate::domain::event::rfc3339;
use crate::domain::text::{shell_word, show};
use crate::domain::time::Timestamp;
use crate::domain::turn::{Course, Item, Told};

/// Columns of a text for a chat; Discord takes 2,000 characters.
const LINE_WIDTH_MAX: usize = 300;
const TEXT_CHARACTERS_MAX: usize = 1_900;

/// Where an alert comes from.
pub(super) struct Origin<'a> {
    /// The alert's name.
    pub(super) alert: &'a str,
    /// The host that tells.
    pub(super) host: &'a str,
    /// The broker's vhost.
    pub(super) vhost: &'a str,
    /// The profile of this daemon's configuration, with which the console opens what it is about.
    pub(super) profile: Option<&'a str>,
    /// Whether nothing happened.
    pub(super) test: bool,
    /// When it was written.
    pub(super) at: Timestamp,
}

/// For programs: an event of Standard Webhooks.
#[derive(Serialize)]
struct Document<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    timestamp: String,
    data: Data<'a>,
}

#[derive(Serialize)]
struct Data<'a> {
    alert: &'a str,
    host: &'a str,
    vhost: &'a str,
    summary: String,
    turns: Vec<Line<'a>>,
    more: u64,
}

#[derive(Serialize)]
struct Line<'a> {
    kind: &'static str,
    bad: bool,
    subject: &'a str,
    text: &'a str,
    count: Option<u64>,
    times: u64,
    at: String,
    open: String,
}

/// The JSON that programs and URLs get.
pub(super) fn document<'a>(origin: &Origin<'a>, told: &'a Told) -> Vec<u8> {
    let test = origin.test;
    let line = |item: &'a Item| Line {
        kind: if test { "test" } else { item.turn.kind.as_str() },
        bad: !test && is_bad(item),
        subject: &item.turn.subject,
        text: &item.turn.text,
        count: item.turn.count,
        times: item.times,
        at: rfc3339(item.turn.at),
        open: open(origin, item),
    };
    let turns = told.items.iter().map(line).collect();
    let document = Document {
        kind: if origin.test {
            "redrive.alert.test"
        } else {
            "redrive.alert"
        },
        timestamp: rfc3339(origin.at),
        data: Data {
            alert: origin.alert,
            host: origin.host,
            vhost: origin.vhost,
            summary: summary(origin, told),
            turns,
            more: told.more,
        },
    };
    serde_json::to_vec(&document).unwrap_or_default()
}

/// The command that opens the console where it is shown.
fn open(origin: &Origin<'_>, item: &Item) -> String {
    let profile = origin
        .profile
        .map_or_else(String::new, |profile| format!(" --profile {}", shell_word(profile)));
    let place = if origin.test {
        "overview".to_owned()
    } else {
        item.turn.place()
    };
    format!("redrive{profile} --at {}", shell_word(&place))
}

/// The JSON that the webhook of a chat takes.
pub(super) fn of_chat(chat: Chat, origin: &Origin<'_>, told: &Told) -> Vec<u8> {
    let text = lines(chat, origin, told);
    let body = match chat {
        Chat::Slack => json!({"text": for_slack(&text)}),
        Chat::Discord => json!({"content": text, "allowed_mentions": {"parse": []}}),
        Chat::Teams => json!({
            "type": "message",
            "attachments": [{
                "contentType": "application/vnd.microsoft.card.adaptive",
                "content": {
                    "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
                    "type": "AdaptiveCard",
                    "version": "1.4",
                    "body": [{"type": "TextBlock", "text": text.replace('\n', "\n\n"), "wrap": true}],
                },
            }],
        }),
    };
    body.to_string().into_bytes()
}

/// Slack takes `<…>` for links and mentions; names from outside are none.
fn for_slack(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// A text or a command, in which the chat takes nothing for a link or for emphasis. All of a text for Slack is written
/// for it in the end.
fn literal(chat: Chat, text: &str) -> String {
    match chat {
        Chat::Slack => text.to_owned(),
        Chat::Discord => format!("`{}`", text.replace('`', "'")),
        Chat::Teams => text.chars().fold(String::new(), |mut literal, character| {
            if r"\*_[]".contains(character) {
                literal.push('\\');
            }
            literal.push(character);
            literal
        }),
    }
}

fn lines(chat: Chat, origin: &Origin<'_>, told: &Told) -> String {
    let mut text = summary(origin, told);
    for item in &told.items {
        let often = if item.times > 1 {
            format!(" ({} times)", item.times)
        } else {
            String::new()
        };
        let open = open(origin, item);
        // A command that is cut, or in which a character is another one, opens something else, or nothing.
        let is_whole = show(&open, LINE_WIDTH_MAX) == open && !open.contains('`');
        let open = if is_whole {
            format!(": {}", literal(chat, &open))
        } else {
            String::new()
        };
        let line = format!(
            "\n- {}{often}{open}",
            literal(chat, &show(&item.turn.text, LINE_WIDTH_MAX))
        );
        if text.chars().count() + line.chars().count() > TEXT_CHARACTERS_MAX {
            text.push_str("\n- …");
            break;
        }
        text.push_str(&line);
    }
    text
}

fn summary(origin: &Origin<'_>, told: &Told) -> String {
    let from = format!("redrive on {} (vhost {})", origin.host, origin.vhost);
    if origin.test {
        return format!("{from}: a test of the alert {}", origin.alert);
    }
    let bad = told.items.iter().filter(|item| is_bad(item)).count() as u64 + told.more;
    let over = told.items.iter().filter(|item| !is_bad(item)).count();
    match (bad, over) {
        (0, over) => format!("{from}: {over} over"),
        (bad, 0) => format!("{from}: {bad} to look at"),
        (bad, over) => format!("{from}: {bad} to look at, {over} over"),
    }
}

fn is_bad(item: &Item) -> bool {
    item.turn.kind.course() != Course::Ends
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::turn::{Turn, TurnKind};

    fn told(texts: &[&str]) -> Told {
        let item = |text: &&str| Item {
            turn: Turn {
                kind: TurnKind::EndpointParked,
                subject: "s".to_owned(),
                text: (*text).to_owned(),
                count: None,
                at: Timestamp::EPOCH,
            },
            times: 2,
        };
        Told {
            items: texts.iter().map(item).collect(),
            more: 0,
        }
    }

    fn origin() -> Origin<'static> {
        Origin {
            alert: "ops",
            host: "h",
            vhost: "/",
            profile: Some("live"),
            test: false,
            at: Timestamp::EPOCH,
        }
    }

    #[test]
    fn what_comes_from_outside_mentions_nobody_and_breaks_no_line() {
        let hostile = told(&["<!channel> & a\nb\u{1b}[2J"]);
        let slack: serde_json::Value = serde_json::from_slice(&of_chat(Chat::Slack, &origin(), &hostile)).unwrap();
        let text = slack["text"].as_str().unwrap();
        assert!(text.contains("&lt;!channel&gt; &amp; a"), "{text}");
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
    }

    #[test]
    fn what_comes_from_outside_is_no_link_and_no_emphasis() {
        let hostile = told(&["http://h/[Runbook](https://evil.example)/a_b`c"]);
        let text = |chat| {
            let body: serde_json::Value = serde_json::from_slice(&of_chat(chat, &origin(), &hostile)).unwrap();
            let card = &body["attachments"][0]["content"]["body"][0]["text"];
            body["content"].as_str().or(card.as_str()).unwrap().to_owned()
        };
        let discord = text(Chat::Discord);
        assert!(
            discord.contains("- `http://h/[Runbook](https://evil.example)/a_b'c` (2 times): `redrive"),
            "{discord}"
        );
        let teams = text(Chat::Teams);
        assert!(
            teams.contains(r"- http://h/\[Runbook\](https://evil.example)/a\_b`c (2 times): redrive"),
            "{teams}"
        );
    }

    #[test]
    fn an_alert_ends_with_the_command_that_opens_what_it_is_about() {
        let mut one = told(&["it waits"]);
        one.items[0].turn.subject = "https://a.example/x?token=***&y=it's".to_owned();
        let document: serde_json::Value = serde_json::from_slice(&document(&origin(), &one)).unwrap();
        assert_eq!(
            document["data"]["turns"][0]["open"],
            "redrive --profile live --at 'endpoint/https://a.example/x?token=***&y=it'\\''s'"
        );
        let discord: serde_json::Value = serde_json::from_slice(&of_chat(Chat::Discord, &origin(), &one)).unwrap();
        let text = discord["content"].as_str().unwrap();
        assert!(
            text.contains("`it waits` (2 times): `redrive --profile live --at '"),
            "{text}"
        );
    }

    #[test]
    fn a_command_that_a_line_has_no_room_for_is_left_out_and_not_cut() {
        let mut one = told(&["it waits"]);
        one.items[0].turn.subject = format!("https://a.example/{}", "x".repeat(LINE_WIDTH_MAX));
        let teams: serde_json::Value = serde_json::from_slice(&of_chat(Chat::Discord, &origin(), &one)).unwrap();
        let text = teams["content"].as_str().unwrap();
        assert!(text.ends_with("`it waits` (2 times)"), "{text}");
    }

    #[test]
    fn a_long_alert_stays_within_what_a_chat_takes() {
        let long = "x".repeat(400);
        let many = told(&[long.as_str(); 20]);
        let discord: serde_json::Value = serde_json::from_slice(&of_chat(Chat::Discord, &origin(), &many)).unwrap();
        assert!(discord["content"].as_str().unwrap().chars().count() <= 2_000);
    }
}
