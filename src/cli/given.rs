//! What commands are given in files or on standard input. What may be a credential need not stand on the command line,
//! which every user of the machine can read.

use std::borrow::Cow;
use std::fs::File;
use std::io::{Read, stdin};
use std::path::Path;

use bytes::Bytes;

use crate::domain::notification::BODY_BYTES_MAX;

use super::exit::{Exit, Failure};

/// Text that is given in a file has at most this many bytes.
const TEXT_BYTES_MAX: usize = 1024 * 1024;

/// The body of a message: a file, or `-` for standard input.
pub(super) fn body(file: &Path) -> Result<Bytes, Failure> {
    bytes("--body-file", file, BODY_BYTES_MAX)
}

/// A file, or `-` for standard input. Reads one byte more than is possible, so that what is too large is told from
/// what fits.
pub(super) fn bytes(flag: &str, file: &Path, bytes_max: usize) -> Result<Bytes, Failure> {
    let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    let read = if file == Path::new("-") {
        stdin().lock().take(limit).read_to_end(&mut bytes)
    } else {
        File::open(file).and_then(|file| file.take(limit).read_to_end(&mut bytes))
    };
    let wrong = |why: String| Failure::new(Exit::Usage, format!("{flag} {} {why}", file.display()));
    read.map_err(|error| wrong(format!("cannot be read: {error}")))?;
    if bytes.len() > bytes_max {
        return Err(wrong(format!("has more than {bytes_max} bytes")));
    }
    Ok(bytes.into())
}

/// A text as it is, or `@FILE` (`@-` for standard input) for what is in a file.
pub(super) fn text<'a>(flag: &str, given: &'a str) -> Result<Cow<'a, str>, Failure> {
    let Some(file) = given.strip_prefix('@') else {
        return Ok(Cow::Borrowed(given));
    };
    let bytes = bytes(flag, Path::new(file), TEXT_BYTES_MAX)?;
    String::from_utf8(bytes.into())
        .map(Cow::Owned)
        .map_err(|_| Failure::new(Exit::Usage, format!("{flag} {given} is not text in UTF-8")))
}

/// Headers as they are given: `NAME: VALUE`, or `@FILE` with one on each line.
pub(super) fn headers(given: &[String]) -> Result<Vec<(String, String)>, Failure> {
    let mut headers = Vec::new();
    for line in header_lines(given)? {
        headers.push(header(&line)?);
    }
    Ok(headers)
}

/// Each line of the headers that are given, which need not have a value.
pub(super) fn header_lines(given: &[String]) -> Result<Vec<String>, Failure> {
    let mut lines = Vec::new();
    for one in given {
        match text("--header", one)? {
            Cow::Borrowed(line) => lines.push(line.to_owned()),
            Cow::Owned(file) => lines.extend(file.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned)),
        }
    }
    Ok(lines)
}

fn header(text: &str) -> Result<(String, String), Failure> {
    let (name, value) = text.split_once(':').unwrap_or_default();
    if name.is_empty() || name.contains(char::is_whitespace) {
        // It may be a credential: the line is not repeated.
        let why = "--header is not of the form 'NAME: VALUE', or @FILE with such lines";
        return Err(Failure::new(Exit::Usage, why));
    }
    Ok((name.to_owned(), value.trim_matches([' ', '\t']).to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_a_name_and_a_value() {
        let read = |text| header(text).map_err(|failure| failure.exit());
        assert_eq!(read("A: b: c"), Ok(("A".to_owned(), "b: c".to_owned())));
        assert_eq!(read("A:"), Ok(("A".to_owned(), String::new())));
        for wrong in ["A", ": b", "a b: c"] {
            assert_eq!(read(wrong), Err(Exit::Usage), "{wrong}");
        }
    }

    #[test]
    fn a_text_is_given_as_it_is_or_in_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("headers");
        std::fs::write(&file, "Authorization: Bearer A\r\n\nX-Team: b\n").unwrap();
        let at = format!("@{}", file.display());
        assert_eq!(text("--options", "{}").unwrap(), "{}");
        let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            headers(&[at, "X-Other: c".to_owned()]).unwrap(),
            [
                header("Authorization", "Bearer A"),
                header("X-Team", "b"),
                header("X-Other", "c")
            ]
        );
        let missing = text("--options", "@/no/such/file").unwrap_err();
        assert_eq!(missing.exit(), Exit::Usage);
        std::fs::write(&file, vec![b'x'; TEXT_BYTES_MAX + 1]).unwrap();
        assert!(
            text("--options", &format!("@{}", file.display())).is_err(),
            "it has a bound"
        );
    }
}
