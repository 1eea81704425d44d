//! File tools for agents, inside the sandbox.
