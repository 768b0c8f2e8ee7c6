//! The blocks of a page, as they stand there. What a block is follows from its language, and from a comment before it:
//! `<!-- not run: WHY -->`, or `<!-- typed: WHY -->` where its commands are only read by the program, because they name
//! what is the reader's own. After a block, `<!-- then: prints TEXT -->` and `<!-- then: terminal N prints TEXT -->` say
//! what comes of it.

/// What is done with a block.
#[derive(Debug, PartialEq, Eq)]
pub enum Use {
    Run,
    Typed,
    NotRun,
}

#[derive(Debug)]
pub struct Block {
    pub line: usize,
    pub language: String,
    pub text: String,
    pub is: Use,
    pub then: Vec<Then>,
}

/// What a terminal, or the block itself, prints in the end.
#[derive(Debug, PartialEq, Eq)]
pub struct Then {
    pub terminal: Option<u32>,
    pub prints: String,
}

impl Block {
    /// The terminal that its first line names: its program goes on there.
    pub fn terminal(&self) -> Option<u32> {
        self.text.lines().next()?.strip_prefix("# terminal ")?.parse().ok()
    }
}

fn comment<'a>(line: &'a str, kind: &str) -> Option<&'a str> {
    let inside = line.strip_prefix("<!-- ")?.strip_suffix(" -->")?;
    inside.strip_prefix(kind)?.strip_prefix(": ")
}

fn then(said: &str) -> Result<Then, String> {
    let (terminal, rest) = match said.strip_prefix("terminal ") {
        Some(rest) => {
            let (number, rest) = rest.split_once(' ').ok_or("no text")?;
            let number = number
                .parse()
                .map_err(|_| format!("{number} is no number of a terminal"))?;
            (Some(number), rest)
        }
        None => (None, said),
    };
    let prints = rest
        .strip_prefix("prints ")
        .ok_or_else(|| format!("{said}: what does it print?"))?;
    Ok(Then {
        terminal,
        prints: prints.to_owned(),
    })
}

/// All blocks of a page; an error names the line that is not understood.
pub fn blocks(page: &str) -> Result<Vec<Block>, String> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut is = Use::Run;
    let mut inside: Option<Block> = None;
    let (mut list, mut blank) = (false, true);
    for (number, line) in (1..).zip(page.lines()) {
        let wrong = |why: &str| format!("line {number}: {why}");
        if let Some(block) = &mut inside {
            if line == "```" {
                blocks.extend(inside.take());
            } else {
                block.text += line;
                block.text.push('\n');
            }
        } else if let Some(language) = line.strip_prefix("```") {
            inside = Some(Block {
                line: number,
                language: language.to_owned(),
                text: String::new(),
                is: std::mem::replace(&mut is, Use::Run),
                then: Vec::new(),
            });
        } else if comment(line, "not run").is_some() {
            is = Use::NotRun;
        } else if comment(line, "typed").is_some() {
            is = Use::Typed;
        } else if let Some(said) = comment(line, "then") {
            let last = blocks.last_mut().ok_or_else(|| wrong("there is no block before it"))?;
            last.then.push(then(said).map_err(|why| wrong(&why))?);
        } else if line.starts_with("    ") && blank && !list {
            return Err(wrong("a block without fences has no language"));
        } else if is != Use::Run && !line.is_empty() {
            return Err(wrong("a block was to follow"));
        }
        if !line.is_empty() && !line.starts_with(' ') {
            list = line.starts_with("- ")
                || line
                    .split_once(". ")
                    .is_some_and(|(begin, _)| begin.parse::<u8>().is_ok());
        }
        blank = line.is_empty();
    }
    match inside {
        Some(block) => Err(format!("line {}: the block has no end", block.line)),
        None => Ok(blocks),
    }
}

#[test]
fn a_page_says_which_of_its_blocks_are_run() {
    let page = "\
# A

```sh
# terminal 2
redrive listen 9000
```

<!-- then: terminal 2 prints a b -->
<!-- not run: needs a release -->
```sh
install
```
<!-- typed: ID is your own -->

```sh
redrive dead show ID
```
";
    let found = blocks(page).unwrap();
    let uses: Vec<_> = found.iter().map(|block| (block.line, &block.is)).collect();
    assert_eq!(uses, [(3, &Use::Run), (10, &Use::NotRun), (15, &Use::Typed)]);
    assert_eq!(found[0].terminal(), Some(2));
    let then = Then {
        terminal: Some(2),
        prints: "a b".to_owned(),
    };
    assert_eq!(found[0].then, [then]);
    for (page, why) in [
        (
            "a\n\n    redrive queues\n",
            "line 3: a block without fences has no language",
        ),
        ("```sh\nredrive\n", "line 1: the block has no end"),
        ("<!-- not run: because -->\ntext\n", "line 2: a block was to follow"),
    ] {
        assert_eq!(blocks(page).unwrap_err(), why);
    }
    // The second paragraph of an item is no block.
    assert!(blocks("- a\n\n    b\n").unwrap().is_empty());
}
