//! Views that have a name: saved, shown, forgotten.

use super::{State, say, snapshots};
use crate::console::journal::Tone;
use crate::console::state::effect::Effect;
use crate::console::state::saved::{NAMES_MAX, SavedView, check_name, view_named};

/// The names that there are, with what they show.
pub(super) fn offered(state: &State) -> Vec<(String, String)> {
    let all = state.session.views.all().into_iter();
    all.map(|(name, line)| (name.to_owned(), say::name(line))).collect()
}

/// The names that can be forgotten: those of the configuration are not ours.
pub(super) fn kept(state: &State) -> Vec<(String, String)> {
    let kept = state.session.views.kept.iter();
    kept.map(|(name, line)| (name.clone(), say::name(line))).collect()
}

/// Goes there.
pub(super) fn show(state: &mut State, name: &str) -> Result<Vec<Effect>, String> {
    let line = state.session.views.get(name);
    let line = line.ok_or_else(|| format!("no view is called {name:?}: `save {name}` saves the one in front"))?;
    let saved = SavedView::read(line)?;
    if let Err(why) = saved.show(state) {
        say::toast(state, Tone::Warning, &format!("{name}: {why}"));
    }
    Ok(snapshots::arrange_front(state))
}

/// Gives what is in front this name.
pub(super) fn save(state: &mut State, name: &str) -> Result<Vec<Effect>, String> {
    check_name(name)?;
    let line = SavedView::of(state).map_err(std::borrow::Cow::into_owned)?.line();
    let kept = &mut state.session.views.kept;
    if kept.len() >= NAMES_MAX && !kept.contains_key(name) {
        return Err(format!("{NAMES_MAX} views are saved: `forget` one first"));
    }
    let said = format!("saved {name}: {}", say::name(&line));
    kept.insert(name.to_owned(), line);
    say::toast(state, Tone::Good, &said);
    Ok(keep(state))
}

/// Removes the name.
pub(super) fn forget(state: &mut State, name: &str) -> Result<Vec<Effect>, String> {
    let views = &mut state.session.views;
    if views.kept.remove(name).is_none() {
        return Err(if views.configured.contains_key(name) {
            format!("{name} is in the configuration: console.views.{name}")
        } else {
            format!("no view is called {name:?}")
        });
    }
    say::toast(state, Tone::Good, &format!("forgotten: {name}"));
    Ok(keep(state))
}

fn keep(state: &State) -> Vec<Effect> {
    let views = &state.session.views;
    let path = views.file.clone();
    let kept = path.map(|path| Effect::Keep {
        path,
        text: views.written(),
    });
    kept.into_iter().collect()
}

/// Begins with the view that the configuration names.
pub(in crate::console) fn begin(state: &mut State) {
    let Some(name) = state.session.views.start.clone() else {
        return;
    };
    if let Some(view) = view_named(&name) {
        state.go_to_top(view);
        return;
    }
    if let Err(why) = show(state, &name) {
        say::notice(state, &format!("console.start: {why}"));
    }
}
