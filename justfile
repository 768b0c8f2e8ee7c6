# For those who like `just`; every recipe is one command of CONTRIBUTING.md.

# Tests on servers: `just test protocols::deleting`; all of them without a filter.
test *filter:
    tests/run --test suite --locked -- {{filter}}

# What is read before a change is sent.
check:
    cargo fmt --check
    cargo clippy --locked --all-targets -- -D warnings

# Writes what is made from the program: the tables of the contract, the keys.
write:
    REDRIVE_DOCUMENTS=write cargo test --locked --test suite documents::contract
    REDRIVE_ASSETS=write cargo test --locked --lib console::action

# Every gate.
ci:
    .ci/run

# The demo: everything embedded, nothing to set up.
demo:
    cargo run --locked -- --demo
