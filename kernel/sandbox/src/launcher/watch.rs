//! The limits of a running program, and its end.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::statvfs;
use rustix::process::{
    PidfdFlags, Signal, WaitOptions, WaitStatus, kill_process, kill_process_group, pidfd_open,
    waitpid,
};
use skillhost_policy::{IsolationLevel, ResourceLimits};

use super::attempt::StartedProgram;
use super::disk_usage::DiskUsage;
use super::process_tree::{ProcessTree, available_memory, end_descendants};
use super::setup::SetupMessage;
use crate::isolation::{EndCause, RunEnd};
use crate::protocol::{ControlSocket, HostMessage, LaunchRequest};
use crate::sys;

/// The interval of checks.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// The share of time that checks may take is one of this number.
const CHECK_SHARE: u32 = 4;

/// The longest interval of checks, however slow they are.
const MAX_CHECK_INTERVAL: Duration = Duration::from_millis(80);

/// The longest interval of checks of an unchanged run without a time limit. Limits
/// still take effect within 250 ms.
const QUIET_CHECK_INTERVAL: Duration = Duration::from_millis(160);

/// The time of one step of the measurement of disk usage, and of one near the limit.
const DISK_STEP: Duration = Duration::from_millis(4);
const LONG_DISK_STEP: Duration = Duration::from_millis(60);

/// The checks of one run.
pub(super) struct RunWatch<'a> {
    limits: &'a ResourceLimits,
    start: Instant,
    disk: DiskUsage,
    /// Whether the last measurement was near the limit.
    is_disk_filling: bool,
    /// The memory of the machine at the start, in bytes.
    available: u64,
    /// The free space of the writable directories at the start, in bytes.
    free_space: u64,
    page: u64,
    peak: u64,
    /// The tasks and the resident bytes at the last check.
    measured: (u64, u64),
    /// Whether the last check has measured the same as the one before.
    is_quiet: bool,
}

impl<'a> RunWatch<'a> {
    /// Measures the state before the start.
    pub(super) fn new(request: &'a LaunchRequest) -> Self {
        Self {
            limits: &request.limits,
            start: Instant::now(),
            disk: DiskUsage::measure(&request.policy.filesystem.allow_write),
            is_disk_filling: false,
            available: available_memory(),
            free_space: free_space(&request.policy.filesystem.allow_write),
            page: rustix::param::page_size() as u64,
            peak: 0,
            measured: (0, 0),
            is_quiet: false,
        }
    }

    /// Waits for the end of a program, or brings it about; no process of the run is left.
    pub(super) fn finish(
        mut self,
        mut program: StartedProgram,
        host: &mut ControlSocket,
    ) -> RunEnd {
        self.start = Instant::now();
        let cause = match pidfd_open(program.pid, PidfdFlags::empty()) {
            Ok(end) => self.await_end(&program, host, &end),
            // Without a way to await the end there is no way to limit it.
            Err(_) => Some(EndCause::Cancelled),
        };
        if cause.is_some() {
            let _ = kill_process(program.pid, Signal::KILL);
            if let Some(group) = &program.cgroup {
                group.end_processes();
            }
        }
        let status = waitpid(Some(program.pid), WaitOptions::empty());
        let status = status.ok().flatten().map(|(_, status)| status);
        let ms = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        let orphans = end_descendants();
        let (code, signal, left_over) = match program.level {
            IsolationLevel::Namespaces => match program.control.receive() {
                Ok(Some(message)) => match message.content {
                    SetupMessage::Exited { code, signal, left_over } => (code, signal, left_over),
                    _ => (None, None, 0),
                },
                // The first process was killed before it could report.
                _ => (None, status.and_then(WaitStatus::terminating_signal), 0),
            },
            _ => (
                status.and_then(WaitStatus::exit_status),
                status.and_then(WaitStatus::terminating_signal),
                orphans,
            ),
        };
        let cause = cause.or_else(|| self.cause_of_signal(signal, &program));
        // The system has refused more processes before they were counted here.
        let at_limit = left_over as u64 + 1 >= self.limits.tasks;
        let cause = cause.or(at_limit.then_some(EndCause::Tasks));
        let peak_kib = (self.peak >> 10).max(sys::children_peak_kib());
        RunEnd {
            exit_code: code,
            signal,
            ended_by: cause,
            left_over,
            ms,
            peak_kib,
            reverted: Vec::new(),
            more_reverted: 0,
            hosts: Vec::new(),
        }
    }

    fn await_end(
        &mut self,
        program: &StartedProgram,
        host: &mut ControlSocket,
        end: &OwnedFd,
    ) -> Option<EndCause> {
        let mut pause = CHECK_INTERVAL;
        let mut last_check = Instant::now();
        loop {
            let left = self.time_left().map_or(pause, |left| left.min(pause));
            let timeout = Timespec { tv_sec: 0, tv_nsec: left.subsec_nanos().into() };
            let mut sources = vec![
                PollFd::new(end, PollFlags::IN),
                PollFd::from_borrowed_fd(host.as_fd(), PollFlags::IN),
            ];
            let signals = program.signals.as_ref();
            sources.extend(signals.map(|listener| PollFd::new(listener, PollFlags::IN)));
            // An interrupted wait is followed by a check like any other.
            let _ = poll(&mut sources, Some(&timeout));
            let has_event = |number: usize, events| {
                sources.get(number).is_some_and(|source| source.revents().intersects(events))
            };
            let any = PollFlags::IN | PollFlags::HUP | PollFlags::ERR;
            let (ended, message) = (has_event(0, any), has_event(1, any));
            let signal = has_event(2, PollFlags::IN);
            if ended {
                return None;
            }
            if message {
                return Some(match host.receive::<HostMessage>() {
                    Ok(Some(message)) => match message.content {
                        HostMessage::Cancel { ended_by } => ended_by.unwrap_or(EndCause::Cancelled),
                        HostMessage::Terminate => {
                            // The first process of a namespace leads the group and ignores it.
                            let _ = kill_process_group(program.pid, Signal::TERM);
                            continue;
                        }
                    },
                    // The kernel has ended, or does not want the run any more.
                    _ => EndCause::Cancelled,
                });
            }
            if let (true, Some(listener)) = (signal, signals) {
                listener.answer_call();
                // A program that sends many signals must not delay the checks.
                if last_check.elapsed() < pause {
                    continue;
                }
            }
            let start = Instant::now();
            last_check = start;
            if let Some(cause) = self.check_limits(program) {
                return Some(cause);
            }
            // A process extension waits for calls most of its life, for days.
            let is_idle = self.limits.seconds.is_none() && self.is_quiet && !self.is_disk_filling;
            pause = next_pause(pause, start.elapsed(), is_idle);
        }
    }

    fn time_left(&self) -> Option<Duration> {
        let limit = Duration::from_secs(self.limits.seconds?);
        Some(limit.saturating_sub(self.start.elapsed()))
    }

    fn check_limits(&mut self, program: &StartedProgram) -> Option<EndCause> {
        if self.time_left().is_some_and(|left| left.is_zero()) {
            return Some(EndCause::Time);
        }
        let tree = ProcessTree::read();
        // The first process of a namespace is not one of the program.
        let own = u64::from(program.level == IsolationLevel::Namespaces);
        if tree.tasks.saturating_sub(own) >= self.limits.tasks {
            return Some(EndCause::Tasks);
        }
        let memory = self.limits.memory_mib.saturating_mul(1 << 20);
        let resident = tree.resident_bytes(self.page);
        self.peak = self.peak.max(resident);
        let measured = (tree.tasks, resident);
        self.is_quiet = measured == std::mem::replace(&mut self.measured, measured);
        // Pages that processes share count for each of them, so that the sum may be too high.
        if resident > memory && tree.proportional_bytes() > memory {
            return Some(EndCause::Memory);
        }
        let held = tree.held_resources();
        let disk = self.limits.disk_mib.saturating_mul(1 << 20);
        let step = if self.is_disk_filling { LONG_DISK_STEP } else { DISK_STEP };
        let grown = self.disk.advance(step);
        self.is_disk_filling = grown.bytes > disk / 8 || grown.files > self.limits.files / 8;
        if grown.bytes + held.unlinked_bytes > disk
            || grown.files > self.limits.files
            || grown.unmeasured > 0
        {
            return Some(EndCause::Disk);
        }
        // Each may be as large as a file can be. Other programs use space as well, so a run is
        // ended only if it could be the cause.
        let possible = held.unmeasured_files.saturating_mul(self.limits.file_mib << 20);
        if possible > disk && free_space(self.disk.roots()).saturating_add(disk) < self.free_space {
            return Some(EndCause::Disk);
        }
        // The kernel's memory for sockets and pipes is counted nowhere. Other programs use memory
        // as well, so a run is ended only if it could be the cause.
        if held.kernel_bytes > memory
            && available_memory().saturating_add(memory.saturating_mul(2)) < self.available
        {
            return Some(EndCause::Memory);
        }
        None
    }

    /// Returns the limit that made the system end the program.
    fn cause_of_signal(&self, signal: Option<i32>, program: &StartedProgram) -> Option<EndCause> {
        if program.cgroup.as_ref().is_some_and(|group| group.was_out_of_memory()) {
            return Some(EndCause::Memory);
        }
        match signal? {
            libc::SIGXCPU => Some(EndCause::Time),
            libc::SIGXFSZ => Some(EndCause::Disk),
            _ => None,
        }
    }
}

/// Returns the free space of the file systems of directories, in bytes.
fn free_space(directories: &[PathBuf]) -> u64 {
    let mut systems = BTreeMap::new();
    for path in directories {
        if let Ok(found) = statvfs(path) {
            systems.insert(found.f_fsid, found.f_bfree.saturating_mul(found.f_frsize));
        }
    }
    systems.values().sum()
}

/// Returns the time until the next check, given the time that the last one took.
fn next_pause(last: Duration, took: Duration, is_idle: bool) -> Duration {
    let usual = (took * CHECK_SHARE).clamp(CHECK_INTERVAL, MAX_CHECK_INTERVAL);
    match is_idle {
        true => (last * 2).clamp(usual, QUIET_CHECK_INTERVAL),
        false => usual,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_run_is_checked_less_often_until_it_works() {
        let took = Duration::from_millis(1);
        let mut pause = next_pause(Duration::ZERO, took, false);
        assert_eq!(pause, CHECK_INTERVAL);
        for _ in 0..5 {
            pause = next_pause(pause, took, true);
        }
        assert_eq!(pause, QUIET_CHECK_INTERVAL);
        assert_eq!(next_pause(pause, took, false), CHECK_INTERVAL);
        assert_eq!(next_pause(pause, Duration::from_secs(1), false), MAX_CHECK_INTERVAL);
    }
}
