# `just` is a convenience: .ci/run and the README's commands need cargo alone.

# What has to pass before a change is merged.
check:
    .ci/run

# An upgrade of a store it makes itself.
demo:
    cargo run --release --locked -- demo target/demo
    cargo run --release --locked -- upgrade target/demo

test:
    cargo test --locked

# Installs the S3 server that the tests start.
moto:
    python3 -m venv target/moto
    target/moto/bin/pip install 'moto[server]==5.2.5'

# A longer campaign of crashes and faults, such as `just campaign 1000..2000`.
campaign seeds:
    ZAGG_CAMPAIGN_SEEDS={{seeds}} cargo test --locked --test campaign

fmt:
    cargo fmt

lint:
    cargo clippy --locked --all-targets -- -D warnings

doc:
    RUSTDOCFLAGS='-D warnings' cargo doc --locked --no-deps

bench:
    cargo bench --locked

deny:
    cargo deny --offline check bans licenses sources

# Packs the golden cases anew.
pack cases:
    tests/data/pack.sh {{cases}}
