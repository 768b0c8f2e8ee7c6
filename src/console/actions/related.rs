//! Actions that go to what belongs to the row or detail in front.

use crate::console::state::action::{Action, Also};
use crate::console::state::relatives::Relatives;
use crate::console::update::relatives;

pub(super) const GO: &[Action] = &[
    Action::new("related_queues", "its queues", &["o q"])
        .help("Go to the queues of the endpoint of the selected or open object.")
        .when(|state| relatives::possible(state, Relatives::queues))
        .does(|state| relatives::go(state, Relatives::queues))
        .also(&[Also::OfRow]),
    Action::new("related_endpoint", "its endpoint", &["o e"])
        .help("Open the endpoint of the selected or open object.")
        .when(|state| relatives::possible(state, Relatives::endpoint))
        .does(|state| relatives::go(state, Relatives::endpoint))
        .also(&[Also::OfRow]),
    Action::new("related_attempts", "its attempts", &["o a"])
        .help("Open the attempts of the selected or open object.")
        .when(|state| relatives::possible(state, Relatives::attempts))
        .does(|state| relatives::go(state, Relatives::attempts))
        .also(&[Also::OfRow]),
    Action::new("related_dead", "its dead letters", &["o d"])
        .help("Go to the dead letters of the selected or open object.")
        .when(|state| relatives::possible(state, Relatives::dead))
        .does(|state| relatives::go(state, Relatives::dead))
        .also(&[Also::OfRow]),
    Action::new("related_policy", "its policy", &["o p"])
        .help("Open the retry policy of the selected or open object.")
        .when(|state| relatives::possible(state, Relatives::policy))
        .does(|state| relatives::go(state, Relatives::policy))
        .also(&[Also::OfRow]),
    Action::new("related_run", "its run", &["o r"])
        .help("Open the run that the line of the audit is about.")
        .when(|state| relatives::possible(state, Relatives::run))
        .does(|state| relatives::go(state, Relatives::run))
        .also(&[Also::OfRow]),
    Action::new("related_audit", "its audit", &["o h"])
        .help("Go to what was done with the selected or open object, by whom and why.")
        .when(|state| relatives::possible(state, Relatives::audit))
        .does(|state| relatives::go(state, Relatives::audit))
        .also(&[Also::OfRow]),
    Action::new("follow_attempts", "follow attempts", &["f"])
        .help("Follow the attempts of the selected or open queue or endpoint while they are made; of everything where nothing is selected. Among them: those of the selected one's endpoint, and again of everything.")
        .turns(relatives::follow),
];
