//! An editor for a payload: a private file, the program that `$VISUAL` or `$EDITOR` names, and what it left.
//!
//! The file is readable by nobody else and is removed whatever happens. What the editor adds by itself, a
//! last line feed, is no change.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use bytes::Bytes;

use crate::console::state::effect::EditJob;
use crate::{ambient, files};

/// What is read back, at most: more is no payload.
const BODY_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Where neither variable is set.
const EDITOR: &str = "vi";

/// Lets the operator write; answers what is written then, or why that cannot be used. Blocks as long as the
/// editor runs; the terminal must have been given back.
pub(in crate::console) fn write(job: &EditJob) -> Result<Bytes, String> {
    let path = std::env::temp_dir().join(format!("redrive-{}{}", ambient::new_id(), job.suffix));
    let file = Removed(path);
    files::write_new(&file.0, &job.body).map_err(|error| format!("a private file cannot be made: {error}"))?;
    run(&file.0)?;
    let written = read(&file.0).map_err(|error| format!("what was written cannot be read: {error}"))?;
    Ok(without_added_line_feed(&job.body, written))
}

/// A file that goes with it.
struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// As the shell would start it, so that `EDITOR="code --wait"` works.
fn run(path: &Path) -> Result<(), String> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
    let editor = variable("VISUAL").or_else(|| variable("EDITOR"));
    let editor = editor.unwrap_or_else(|| EDITOR.to_owned());
    let status = Command::new("sh")
        .arg("-c")
        .arg(format!("{editor} \"$@\""))
        .arg(&editor)
        .arg(path)
        .status()
        .map_err(|error| format!("the editor cannot be started: {error}"))?;
    if status.success() {
        return Ok(());
    }
    Err(format!("the editor {editor:?} failed ({status}): set $EDITOR"))
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut written = Vec::new();
    let read = fs::File::open(path)?
        .take(BODY_BYTES_MAX + 1)
        .read_to_end(&mut written)?;
    if u64::try_from(read).unwrap_or(u64::MAX) > BODY_BYTES_MAX {
        return Err(io::Error::other(format!("it has more than {BODY_BYTES_MAX} bytes")));
    }
    Ok(written)
}

fn without_added_line_feed(before: &[u8], mut written: Vec<u8>) -> Bytes {
    if !before.ends_with(b"\n") && written.ends_with(b"\n") {
        written.pop();
    }
    written.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_last_line_feed_that_the_editor_adds_is_no_change() {
        let check = |before: &[u8], written: &[u8], expected: &[u8]| {
            assert_eq!(without_added_line_feed(before, written.to_vec()), expected);
        };
        check(b"{}", b"{}\n", b"{}");
        check(b"{}\n", b"{}\n", b"{}\n");
        check(b"", b"x\n\n", b"x\n");
    }

    #[test]
    fn the_file_is_private_and_goes() {
        use std::os::unix::fs::PermissionsExt as _;
        let path = std::env::temp_dir().join(format!("redrive-{}", ambient::new_id()));
        let file = Removed(path.clone());
        files::write_new(&file.0, b"secret").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(
            files::write_new(&file.0, b"again").is_err(),
            "an existing file is never taken"
        );
        assert_eq!(read(&file.0).unwrap(), b"secret");
        drop(file);
        assert!(!path.exists());
    }
}
