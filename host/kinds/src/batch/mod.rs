//! Pods that end: Job and CronJob.

mod cron_job;
mod job;
mod schedule;

pub(crate) use cron_job::CronJob;
pub(crate) use job::Job;
