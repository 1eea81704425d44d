//! Proposals of agents against the cases of all skills, with the real ledger.

#![cfg(test)]

mod corpus;
mod home;
mod model_runs;
mod proposals;
