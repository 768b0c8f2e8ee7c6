//! Colours by meaning: the only place that names one.

/// The styles in use, by role.
#[derive(Clone, Debug, Default)]
pub struct Theme {}
