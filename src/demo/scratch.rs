//! A directory that is gone when the demo is.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::ambient;

/// Only for its owner; removed with everything in it when dropped.
#[derive(Debug)]
pub struct ScratchDirectory(PathBuf);

impl ScratchDirectory {
    /// A new one among the system's temporary files.
    pub fn create() -> io::Result<Self> {
        let name = format!(
            "redrive-demo-{}-{:08x}",
            std::process::id(),
            ambient::random() & 0xffff_ffff
        );
        let path = std::env::temp_dir().join(name);
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for ScratchDirectory {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            tracing::warn!(path = ?self.0, error = ?error, "the scratch directory is left behind");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_with_everything_in_it() {
        let scratch = ScratchDirectory::create().unwrap();
        let path = scratch.path().to_owned();
        fs::write(path.join("redrive.db"), b"x").unwrap();
        drop(scratch);
        assert!(!path.exists());
    }
}
