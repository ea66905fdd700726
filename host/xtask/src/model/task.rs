//! What a host does, one call after another: the order is the engine's, each decision a machine's of `core`.

use anyhow::{Result, bail};
use chandlery_core::claim::{
    Answer, Call, HolderState, Machine, Next, Purpose, Refusal, Register, Registration, Release, Rule, Rules, Take,
    Taken, TearDown, Trigger,
};

use super::world::{HOSTS, Host, Hosts, Record, Renaming, Seat, Small, StoredClaim, World, Written};

/// A pass over one step of one holder.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct StepTask {
    /// The record as it was loaded.
    record: Option<Record>,
    /// Whether that is still its version.
    pub(super) current: bool,
    at: At,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum At {
    /// For a claim whose holder may be gone: is it?
    Collect,
    Load(Direction),
    Open,
    Begin,
    Take(Purpose, Take<Small>),
    Stamp,
    Write,
    TakeAway,
    Close,
    Release(Release<Small>),
    DropHolder,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Direction {
    Forward,
    Back,
    /// Of a holder that is gone.
    Remnant,
}

/// A look at the remote.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum RemoteTask {
    /// Puts our finalizer on it.
    Protect,
    /// Registers it.
    Register(Register<Small>),
    /// Tears it down.
    TearDown(TearDown<Small>),
}

/// One thing a host can begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Bring,
    Back,
    Collect,
    Protect,
    Register,
    Drain,
    End,
}

/// What broke.
pub(super) type Broken = &'static str;

/// Whom a task works for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Actor {
    pub(super) host: Host,
    /// Which seat; none is the remote.
    pub(super) seat: Option<usize>,
}

/// A task of either sort.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Task {
    Step(Box<StepTask>),
    Remote(Box<RemoteTask>),
}

/// What one call came to.
pub(super) struct Made {
    /// The call, for people.
    pub(super) call: String,
    /// What is left to be done.
    pub(super) rest: Option<Task>,
    /// What broke by it.
    pub(super) broken: Option<Broken>,
}

impl StepTask {
    pub(super) fn rename(&mut self, names: &Renaming) {
        match &mut self.at {
            At::Take(_, take) => *take = take.renamed(names),
            At::Release(release) => *release = release.renamed(names),
            _ => {}
        }
    }
}

impl RemoteTask {
    pub(super) fn rename(&mut self, names: &Renaming) {
        match self {
            RemoteTask::Protect => {}
            RemoteTask::Register(register) => *register = register.renamed(names),
            RemoteTask::TearDown(tear_down) => *tear_down = tear_down.renamed(names),
        }
    }
}

impl Task {
    /// The task of a kind, at its beginning.
    pub(super) fn new(kind: Kind, actor: Actor, world: &World, rules: Rules) -> Self {
        let step = |at: At| {
            Task::Step(Box::new(StepTask {
                record: None,
                current: true,
                at,
            }))
        };
        let index = usize::from(actor.host);
        let counted = world
            .seats
            .iter()
            .any(|seat| seat.borne.get(index).copied().unwrap_or_default());
        let tear_down = |trigger| {
            Task::Remote(Box::new(RemoteTask::TearDown(TearDown::new(
                actor.host, trigger, counted, rules,
            ))))
        };
        match kind {
            Kind::Bring => step(At::Load(Direction::Forward)),
            Kind::Back => step(At::Load(Direction::Back)),
            Kind::Collect => step(At::Collect),
            Kind::Protect => Task::Remote(Box::new(RemoteTask::Protect)),
            Kind::Register => Task::Remote(Box::new(RemoteTask::Register(Register::new(actor.host, rules)))),
            Kind::Drain => tear_down(Trigger::LastClaim),
            Kind::End => tear_down(Trigger::Deletion),
        }
    }

    /// Makes its next call.
    pub(super) fn step(self, world: &mut World, actor: Actor, rules: Rules) -> Result<Made> {
        match self {
            Task::Step(task) => {
                let seat = actor.seat.unwrap_or_default();
                Pass {
                    world,
                    host: actor.host,
                    seat,
                    rules,
                    broken: None,
                }
                .step(*task)
            }
            Task::Remote(task) => look(*task, world, actor.host, rules),
        }
    }
}

/// One call of one pass.
struct Pass<'a> {
    world: &'a mut World,
    host: Host,
    seat: usize,
    rules: Rules,
    broken: Option<Broken>,
}

impl Pass<'_> {
    fn seat(&mut self) -> Result<&mut Seat> {
        match self.world.seats.get_mut(self.seat) {
            Some(seat) => Ok(seat),
            None => bail!("there is no seat {}", self.seat),
        }
    }

    fn borne(&mut self) -> Result<&mut bool> {
        let index = usize::from(self.host);
        match self.seat()?.borne.get_mut(index) {
            Some(borne) => Ok(borne),
            None => bail!("host {index} of {HOSTS} is none that lives"),
        }
    }

    fn step(mut self, mut task: StepTask) -> Result<Made> {
        let (call, next) = match task.at.clone() {
            At::Collect => {
                let next = match self.seat()?.holder {
                    HolderState::Gone => At::Load(Direction::Remnant),
                    _ => self.release(),
                };
                ("reads the holder".to_owned(), Some(next))
            }
            At::Load(direction) => {
                task.record = self.seat()?.record;
                task.current = true;
                let next = match (direction, task.record) {
                    (Direction::Forward, None) => Some(At::Open),
                    (Direction::Forward, Some(record)) if !record.leaving => {
                        Some(self.take(Purpose::Provision, record.used)?)
                    }
                    (_, Some(record)) if !record.leaving => Some(At::Begin),
                    (_, Some(_)) => Some(self.after_begin(&task)?),
                    (Direction::Back, None) => self.after_release()?,
                    (Direction::Remnant, None) => Some(self.release()),
                };
                ("reads its record".to_owned(), next)
            }
            At::Open => {
                let ending = self.world.ending;
                let seat = self.seat()?;
                let next = if ending || seat.record.is_some() {
                    None
                } else {
                    let record = Record {
                        used: false,
                        leaving: false,
                    };
                    seat.record = Some(record);
                    task.record = Some(record);
                    self.world.age(Written::Record(self.seat));
                    Some(self.take(Purpose::Provision, false)?)
                };
                ("opens its record".to_owned(), next)
            }
            At::Begin => {
                let next = if self.write_record(&mut task, |record| record.leaving = true)? {
                    Some(self.after_begin(&task)?)
                } else {
                    None
                };
                ("stores that it is undone".to_owned(), next)
            }
            At::Take(purpose, mut take) => {
                if take.gives_back() {
                    *self.borne()? = false;
                }
                let Next::Call(call) = take.next() else {
                    bail!("a take that has ended stands still")
                };
                let answer = self.answer(&call, &task)?;
                if let Some(answer) = answer {
                    self.renew(&call, |names| take = take.renamed(names));
                    take.learn(answer);
                    (told(&call), self.after_take(&task, purpose, take)?)
                } else {
                    (told(&call), None)
                }
            }
            At::Stamp => {
                let stamped = self.write_record(&mut task, |record| record.used = true)?;
                ("stamps its record as used".to_owned(), stamped.then_some(At::Write))
            }
            At::Write => {
                self.touch();
                self.seat()?.written = true;
                ("writes to the remote".to_owned(), None)
            }
            At::TakeAway => {
                self.touch();
                self.seat()?.written = false;
                ("takes away from the remote".to_owned(), Some(At::Close))
            }
            At::Close => {
                let closed = task.current && self.seat()?.record.is_some();
                let next = if closed {
                    self.seat()?.record = None;
                    self.world.age(Written::Record(self.seat));
                    Some(self.release())
                } else {
                    None
                };
                ("closes its record".to_owned(), next)
            }
            At::Release(mut release) => {
                // From its first call: where its answer is lost, the claim may be gone.
                *self.borne()? = false;
                let Next::Call(call) = release.next() else {
                    bail!("a release that has ended stands still")
                };
                let answer = self.answer(&call, &task)?;
                if let Some(answer) = answer {
                    self.renew(&call, |names| release = release.renamed(names));
                    release.learn(answer);
                    let next = match release.next() {
                        Next::Call(_) => Some(At::Release(release)),
                        Next::End(_) => self.after_release()?,
                    };
                    (told(&call), next)
                } else {
                    (told(&call), None)
                }
            }
            At::DropHolder => {
                self.seat()?.holder = HolderState::Gone;
                ("lets the holder go".to_owned(), None)
            }
        };
        let rest = next.map(|at| Task::Step(Box::new(StepTask { at, ..task })));
        Ok(Made {
            call,
            rest,
            broken: self.broken,
        })
    }

    fn take(&mut self, purpose: Purpose, used: bool) -> Result<At> {
        let borne = *self.borne()?;
        Ok(At::Take(
            purpose,
            Take::new(self.host, purpose, used, borne, self.rules),
        ))
    }

    fn release(&self) -> At {
        At::Release(Release::new(self.host, self.rules))
    }

    fn after_begin(&mut self, task: &StepTask) -> Result<At> {
        match task.record {
            Some(record) if record.used => self.take(Purpose::Deprovision, true),
            _ => Ok(At::Close),
        }
    }

    fn after_take(&mut self, task: &StepTask, purpose: Purpose, take: Take<Small>) -> Result<Option<At>> {
        let used = task.record.is_some_and(|record| record.used);
        Ok(match take.next() {
            Next::Call(_) => Some(At::Take(purpose, take)),
            Next::End(Taken::Use) => {
                *self.borne()? = true;
                Some(match purpose {
                    Purpose::Deprovision => At::TakeAway,
                    Purpose::Provision if used => At::Write,
                    Purpose::Provision => At::Stamp,
                })
            }
            // What was there is gone with the remote: recorded, and done.
            Next::End(Taken::Refused(Refusal::RemoteGone)) if purpose == Purpose::Deprovision => {
                *self.borne()? = false;
                Some(At::Close)
            }
            Next::End(_) => {
                *self.borne()? = false;
                None
            }
        })
    }

    fn after_release(&mut self) -> Result<Option<At>> {
        let seat = self.seat()?;
        Ok((seat.holder == HolderState::Leaving && seat.record.is_none()).then_some(At::DropHolder))
    }

    fn write_record(&mut self, task: &mut StepTask, change: impl FnOnce(&mut Record)) -> Result<bool> {
        let current = task.current;
        let Some(record) = self.seat()?.record.as_mut().filter(|_| current) else {
            return Ok(false);
        };
        change(record);
        task.record = Some(*record);
        self.world.age(Written::Record(self.seat));
        Ok(true)
    }

    /// Any use of the remote.
    fn touch(&mut self) {
        if self.world.remote.is_none() {
            self.broken = Some("used after tear-down: the remote is gone");
        } else if self.world.torn {
            self.broken = Some("used after tear-down: it is deregistered");
        }
    }

    /// What was read before the call's own write is old.
    fn renew(&self, call: &Call<Small>, rename: impl FnOnce(&Renaming)) {
        if matches!(
            call,
            Call::WriteInstances { .. } | Call::FreeClaim { .. } | Call::CreateClaim(_) | Call::DeleteClaim { .. }
        ) {
            rename(&Renaming::old_claim());
        }
    }

    /// What the hub answers; nothing is an error that ends the pass.
    fn answer(&mut self, call: &Call<Small>, task: &StepTask) -> Result<Option<Answer<Small>>> {
        let (seat, rules, ending) = (self.seat, self.rules, self.world.ending);
        let needs_finalizer = rules.keep(Rule::ClaimIsProtected);
        let there = self.seat()?.claim;
        let is_written = |at: &bool| *at && there.is_some();
        Ok(Some(match call {
            Call::CreateClaim(own) => {
                if there.is_some() {
                    Answer::Conflict
                } else if ending {
                    return Ok(None);
                } else {
                    self.set_claim(Some(StoredClaim {
                        finalizer: needs_finalizer,
                        deleting: false,
                        instances: Hosts::of(&[*own]),
                    }))?;
                    Answer::Claim(self.world.claim(seat, needs_finalizer))
                }
            }
            Call::ReadClaim => Answer::Claim(self.world.claim(seat, needs_finalizer)),
            Call::WriteInstances { at, instances } => match there {
                Some(claim) if *at => {
                    self.set_claim(Some(StoredClaim {
                        instances: Hosts::of(instances),
                        ..claim
                    }))?;
                    Answer::Claim(self.world.claim(seat, needs_finalizer))
                }
                _ => Answer::Conflict,
            },
            Call::FreeClaim { at } => match there {
                Some(claim) if is_written(at) => {
                    let freed = StoredClaim {
                        finalizer: false,
                        ..claim
                    };
                    self.set_claim((!claim.deleting).then_some(freed))?;
                    Answer::Claim(self.world.claim(seat, true))
                }
                _ => Answer::Conflict,
            },
            Call::DeleteClaim { at } => match there {
                Some(_) if is_written(at) => {
                    self.set_claim(None)?;
                    Answer::Done
                }
                None => Answer::Done,
                Some(_) => Answer::Conflict,
            },
            Call::ReadHolder => Answer::Holder(self.seat()?.holder),
            Call::ReadRecord => {
                let record = self.seat()?.record;
                Answer::Record {
                    used: record.is_some_and(|record| record.used),
                    held: record.is_some() && task.current,
                }
            }
            Call::ReadRemote => Answer::Remote(self.world.remote()),
            Call::Sight(hosts) => Answer::Gone(World::gone(hosts)),
            other => bail!("a step never makes the call {other:?}"),
        }))
    }

    fn set_claim(&mut self, claim: Option<StoredClaim>) -> Result<()> {
        self.seat()?.claim = claim;
        self.world.age(Written::Claim(self.seat));
        Ok(())
    }
}

fn look(task: RemoteTask, world: &mut World, host: Host, rules: Rules) -> Result<Made> {
    let mut broken = None;
    let (call, rest) = match task {
        RemoteTask::Protect => {
            if let Some(remote) = world
                .remote
                .as_mut()
                .filter(|remote| !remote.deleting && !remote.protected)
            {
                remote.protected = true;
                world.age(Written::Remote);
            }
            ("puts the finalizer on the remote".to_owned(), None)
        }
        RemoteTask::Register(mut register) => {
            let Next::Call(call) = register.next() else {
                bail!("a registration that has ended stands still")
            };
            let answer = answer_look(&call, world, rules, &mut broken)?;
            if let Some(names) = renewed(&call) {
                register = register.renamed(&names);
            }
            register.learn(answer);
            let goes_on = matches!(register.next(), Next::Call(_));
            (told(&call), goes_on.then_some(RemoteTask::Register(register)))
        }
        RemoteTask::TearDown(mut tear_down) => {
            let Next::Call(call) = tear_down.next() else {
                bail!("a tear-down that has ended stands still")
            };
            let answer = answer_look(&call, world, rules, &mut broken)?;
            if let Some(names) = renewed(&call) {
                tear_down = tear_down.renamed(&names);
            }
            tear_down.learn(answer);
            let goes_on = matches!(tear_down.next(), Next::Call(_));
            (told(&call), goes_on.then_some(RemoteTask::TearDown(tear_down)))
        }
    };
    let _ = host;
    Ok(Made {
        call,
        rest: rest.map(|rest| Task::Remote(Box::new(rest))),
        broken,
    })
}

fn renewed(call: &Call<Small>) -> Option<Renaming> {
    match call {
        Call::WriteFence { .. } | Call::DropFinalizer { .. } => Some(Renaming::old_remote()),
        Call::WriteRegistration(_) | Call::DeleteRegistration(_) => Some(Renaming::old_registration()),
        _ => None,
    }
}

fn answer_look(
    call: &Call<Small>,
    world: &mut World,
    rules: Rules,
    broken: &mut Option<Broken>,
) -> Result<Answer<Small>> {
    Ok(match call {
        Call::ReadRemote => Answer::Remote(world.remote()),
        Call::Sight(hosts) => Answer::Gone(World::gone(hosts)),
        Call::ListClaims => {
            let needs_finalizer = rules.keep(Rule::ClaimIsProtected);
            let held = (0..world.seats.len()).filter_map(|seat| world.claim(seat, needs_finalizer));
            Answer::Claims(held.filter(|claim| claim.held).map(|_| ()).collect())
        }
        Call::WriteFence {
            at,
            draining,
            registrars,
        } => match world.remote.as_mut().filter(|_| at.unwrap_or(true)) {
            Some(remote) => {
                if remote.draining && !draining {
                    world.torn = false;
                }
                remote.draining = *draining;
                remote.registrars = Hosts::of(registrars);
                world.age(Written::Remote);
                Answer::Remote(world.remote())
            }
            None => Answer::Conflict,
        },
        Call::DropFinalizer { at } => {
            if world.remote.is_some() && at.unwrap_or(true) {
                end_remote(world, broken);
                Answer::Done
            } else {
                Answer::Conflict
            }
        }
        Call::ReadRegistration => Answer::Registration(if world.registered {
            Registration::Ours {
                uid: true,
                current: true,
            }
        } else {
            Registration::Absent
        }),
        Call::WriteRegistration(None) if world.registered => Answer::Conflict,
        Call::WriteRegistration(Some(uid)) if !(world.registered && *uid) => Answer::Conflict,
        Call::WriteRegistration(_) => {
            if world.remote.is_none() {
                *broken = Some("an orphan: registered after the remote was gone");
            }
            world.registered = true;
            world.age(Written::Registration);
            Answer::Done
        }
        Call::DeleteRegistration(uid) => {
            if world.registered && *uid {
                if world.seats.iter().any(|seat| seat.claim.is_some() && in_use(seat)) {
                    *broken = Some("deregistered while a claim that was used exists");
                }
                world.registered = false;
                world.torn = true;
                world.age(Written::Registration);
            }
            Answer::Done
        }
        other => bail!("a look at the remote never makes the call {other:?}"),
    })
}

fn in_use(seat: &Seat) -> bool {
    seat.written || seat.record.is_some_and(|record| record.used)
}

/// The remote goes.
pub(super) fn end_remote(world: &mut World, broken: &mut Option<Broken>) {
    if world.seats.iter().any(|seat| seat.written) {
        *broken = Some("an orphan: the remote went with something of a step on it");
    } else if world.registered {
        *broken = Some("an orphan: the remote went with its registration there");
    }
    world.remote = None;
    world.torn = false;
    world.age(Written::Remote);
}

fn told(call: &Call<Small>) -> String {
    match call {
        Call::CreateClaim(_) => "creates the claim",
        Call::ReadClaim => "reads the claim",
        Call::WriteInstances { .. } => "writes who uses the claim",
        Call::FreeClaim { .. } => "frees the claim",
        Call::DeleteClaim { .. } => "deletes the claim",
        Call::ReadHolder => "reads the holder",
        Call::ReadRecord => "reads the record",
        Call::ReadRemote => "reads the remote",
        Call::Sight(_) => "looks for other hosts",
        Call::ListClaims => "lists the claims",
        Call::WriteFence { draining: true, .. } => "writes the remote: draining",
        Call::WriteFence { .. } => "writes the remote: not draining",
        Call::DropFinalizer { .. } => "takes the finalizer off the remote",
        Call::ReadRegistration => "looks for the registration",
        Call::WriteRegistration(None) => "creates the registration",
        Call::WriteRegistration(Some(_)) => "changes the registration",
        Call::DeleteRegistration(_) => "deletes the registration",
    }
    .to_owned()
}
