//! What is painted with: the one gate for text, and what is drawn of words, numbers and columns.
//!
//! Nothing here knows the state of the console.

pub(super) mod ascii;
pub(super) mod bars;
pub(super) mod canvas;
pub(super) mod columns;
pub(super) mod schedule;
pub(super) mod timeline;
pub(super) mod words;
