# The entry points of `cargo xtask`, for users of just.

# Lists the recipes.
default:
    @just --list

# Builds everything in release mode and runs the demo on a temporary copy of sandbox/.
demo:
    cargo xtask demo

# Runs all checks that CI runs.
test:
    cargo xtask test

# Prints measured figures next to their targets.
bench:
    cargo xtask bench

# Creates an extension crate in sandbox/extensions/ID.
new-extension ID:
    cargo run --quiet --package skillhost -- ext new {{ID}}

# Installs the binary, libraries, manifests, skills and the SDK under PREFIX.
install PREFIX:
    cargo xtask install --prefix {{PREFIX}}
