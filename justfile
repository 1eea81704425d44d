# The same entry points as `cargo xtask`, for people who use just.

# Lists the recipes.
default:
    @just --list

# Builds everything in release and runs the main job on a temporary copy of sandbox/.
demo:
    cargo xtask demo

# Runs everything CI runs.
test:
    cargo xtask test

# Prints the measured numbers beside the ones to reach.
bench:
    cargo xtask bench

# Scaffolds an extension crate in sandbox/extensions/ID.
new-extension ID:
    cargo run --quiet --package skillhost -- ext new {{ID}}

# Puts the binary, the libraries, the manifests, the skills and the SDK under PREFIX.
install PREFIX:
    cargo xtask install --prefix {{PREFIX}}
