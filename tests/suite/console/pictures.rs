//! The pictures of the pages are what the program paints, one by one and as a film, and their numbers agree.
//!
//! `REDRIVE_PICTURES=write cargo test --test suite console::pictures` makes them again.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use ratatui::buffer::Buffer;
use redrive::internals::console::Theme;
use redrive::internals::console::runtime::picture::svg;
use regex::Regex;

use super::fixture::incident::{self, Step};
use super::fixture::{Player, scene};
use super::screens::text;

/// A scene with what its picture is called for those who cannot see it.
const PICTURES: &[(&str, &str)] = &[
    (
        "overview",
        "Overview: three endpoints are not available, 67 messages wait",
    ),
    ("queues", "Queues, those that need a person first"),
    ("endpoints", "Endpoints, those that are not available first"),
    ("retries", "Retries: what is tried when, as a time line and a list"),
    ("log", "Log: what was done and what happened"),
    ("queue_why", "Detail of a queue: why it is not moving"),
    ("queue_attempts", "Detail of a queue: its attempts"),
    ("queue_messages", "Detail of a queue: its first messages"),
    ("queue_hour", "Detail of a queue: its last hour"),
    ("queue_map", "Detail of a queue: where its dead letters go"),
    ("dialog_one", "Confirmation: redeliver one endpoint"),
    ("incident_groups", "Dead letters: groups of what failed alike"),
    ("incident_letter", "Detail of a dead letter: why it died"),
    (
        "incident_plan",
        "The plan of a redrive: 412 dead letters, the first 20 watched",
    ),
    ("incident_run", "A run while it goes: 206 of 412 are sent"),
    ("policy_schedule", "A retry policy with its schedule"),
    ("event_types", "Events: types with what is dead and due"),
    ("event_groups", "Events: why those of a type are there"),
    ("event_why", "Detail of an event: why it is there"),
    ("expiring", "Queues that expire, those that lose messages first"),
];

const FILM: &str = "An incident: 412 dead letters are found, understood, planned, and sent again";
/// The step that is shown where nothing may move: the plan.
const STILL: usize = 4;

fn painted(player: &Player) -> Buffer {
    player.clone().sized(120, 30).paint(&Theme::default())
}

fn check(name: &str, picture: &str) {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("assets/console-{}.svg", name.replace('_', "-")));
    if std::env::var_os("REDRIVE_PICTURES").is_some_and(|value| value == "write") {
        fs::write(&file, picture).unwrap();
    }
    let stored = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        stored == picture,
        "{} is not what the program paints: see tests/suite/console/pictures.rs",
        file.display()
    );
}

#[test]
fn the_pictures_are_what_the_program_paints() {
    for (name, title) in PICTURES {
        check(name, &svg(&painted(&scene(name)), title));
    }
}

#[test]
fn the_film_is_what_the_program_paints() {
    check("incident", &film(&incident::steps()));
}

/// Pictures of the console one after the other, each with the keys that led to it below; moved by CSS alone.
fn film(steps: &[Step]) -> String {
    let pictures: Vec<String> = steps.iter().map(|step| svg(&painted(&step.player), FILM)).collect();
    let first = &pictures[0];
    let size = Regex::new(r#"viewBox="0 0 (\d+) (\d+)""#).unwrap();
    let size = size.captures(first).expect("a picture has a size");
    let (width, height): (u32, u32) = (size[1].parse().unwrap(), size[2].parse().unwrap());
    let ground = Regex::new(r#"rx="8" fill="([^"]+)""#).unwrap();
    let ground = &ground.captures(first).expect("a picture has a ground")[1];
    let all = height + CAPTION;
    let mut film = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {all}\" role=\"img\" aria-label=\"{FILM}\">\n\
         <title>{FILM}</title>\n<style>\n{}</style>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{ground}\"/>\n",
        moves(steps)
    );
    for (number, (step, picture)) in steps.iter().zip(&pictures).enumerate() {
        let begin = picture.find("<g ").expect("a picture has a screen");
        let screen = picture[begin..].trim_end().trim_end_matches("</svg>");
        let _ = writeln!(
            film,
            "<g class=\"step s{number}\">\n{screen}{}</g>",
            caption(step, height)
        );
    }
    film + "</svg>\n"
}

/// Height of the line below the screen, in pixels.
const CAPTION: u32 = 44;

/// Each step is seen for its seconds and hidden for all others; who wants no motion sees one.
fn moves(steps: &[Step]) -> String {
    let all: u32 = steps.iter().map(|step| step.seconds).sum();
    let percent = |seconds: u32| f64::from(seconds) * 100.0 / f64::from(all);
    let mut css =
        format!(".step{{opacity:0}}.s{STILL}{{opacity:1}}\n@media (prefers-reduced-motion: no-preference){{\n");
    let mut from = 0;
    for (number, step) in steps.iter().enumerate() {
        let to = from + step.seconds;
        let (begin, end) = (percent(from), percent(to));
        let _ = writeln!(
            css,
            ".s{number}{{animation:k{number} {all}s step-end infinite}}\
             @keyframes k{number}{{0%{{opacity:{}}}{begin:.2}%{{opacity:1}}{end:.2}%{{opacity:{}}}}}",
            u8::from(from == 0),
            u8::from(to == all && from == 0),
        );
        from = to;
    }
    css + "}\n"
}

/// The keys as keys, then what a person sees.
fn caption(step: &Step, top: u32) -> String {
    let mut line = String::from("<g font-family=\"'DejaVu Sans','Helvetica','Arial',sans-serif\" font-size=\"16\">\n");
    let (mut left, foot) = (14, top + 26);
    for key in step.keys {
        let wide = 18 + 10 * u32::try_from(key.len()).unwrap();
        let _ = writeln!(
            line,
            "<rect x=\"{left}\" y=\"{}\" width=\"{wide}\" height=\"26\" rx=\"5\" fill=\"#2b3340\" stroke=\"#8a94a6\"/>\
             <text x=\"{}\" y=\"{foot}\" text-anchor=\"middle\" fill=\"#ffffff\" font-weight=\"bold\">{key}</text>",
            foot - 19,
            left + wide / 2
        );
        left += wide + 8;
    }
    let _ = writeln!(
        line,
        "<text x=\"{}\" y=\"{foot}\" fill=\"#d5dbe5\">{}</text>\n</g>",
        left + 4,
        step.says
    );
    line
}

/// Every number that this finds in the text of a screen.
fn numbers(screen: &str, what: &str) -> Vec<u64> {
    let what = Regex::new(what).unwrap();
    let found = what.captures_iter(screen);
    found.map(|found| found[1].replace(',', "").parse().unwrap()).collect()
}

#[test]
fn the_numbers_of_the_pictures_agree_with_each_other() {
    let shown = |player: &Player| text(&painted(player));
    let one = |screen: &str, what: &str| {
        let found = numbers(screen, what);
        assert_eq!(found.len(), 1, "{what} in\n{screen}");
        found[0]
    };
    let badge = |screen: &str| one(screen, r"5 Dead(?: letters)? ([\d,]+)");

    let overview = shown(&scene("overview"));
    let by_endpoint: u64 = numbers(&overview, r"(\d+) waiting · \d").iter().sum();
    assert_eq!(one(&overview, r"not available: (\d+) messages wait"), by_endpoint);
    let of_state: u64 = numbers(&overview, r"[!×▼…◆●○] (\d+) [a-z ]+?(?:  |\n)").iter().sum();
    assert_eq!(one(&overview, r"(\d+) delivery queues"), of_state);

    let steps = incident::steps();
    let says = |number: usize| shown(&steps[number].player);
    let of_groups = |screen: &str| numbers(screen, r"(?m)^[ ▌]\s+([\d,]+)  \S");
    assert_eq!(one(&says(0), r"× ([\d,]+) dead letters in 2 queues"), badge(&says(0)));
    for number in [1, 6, 7] {
        let screen = says(number);
        assert_eq!(of_groups(&screen).iter().sum::<u64>(), badge(&screen), "{screen}");
    }
    let largest = of_groups(&says(1))[0];
    let plan = says(STILL);
    for what in [r"redrive ([\d,]+) dead letters", r"([\d,]+) messages · 1 target"] {
        assert_eq!(one(&plan, what), largest, "{what}");
    }
    let homeless = one(&plan, r"(\d+) of them cannot go anywhere");
    let typed = one(&plan, r"type the number of dead letters: (\d+)");
    assert_eq!(typed, largest - homeless, "what goes somewhere");
    for number in [6, 7] {
        let screen = says(number);
        assert_eq!(one(&screen, r"▏ \d+ of (\d+)"), largest, "{screen}");
    }
    let before = badge(&says(0));
    assert_eq!(badge(&says(8)), before - (largest - homeless));
    assert_eq!(badge(&shown(&scene("dead_groups"))), before, "the bad day has as many");
}
