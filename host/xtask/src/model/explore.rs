//! Every state that can be reached with at most so many disturbances, and what must hold in each.
//!
//! The host that leads does one thing at a time, from its first call to its last, unless it is disturbed: it stands still
//! before a call while others go on, it dies before or after a call, its call's answer is lost, it begins on a view that is
//! not so any more, or the other host leads while it still lives. What people do (delete a holder, the remote, the namespace) and what a condition does (bring, take away, and bring
//! again) is free. So all that can go wrong with one disturbance is found before anything that takes two, and a trace that
//! is printed has as few as there can be.
//!
//! An explorer of its own and no library: states are grown by the number of disturbances in them, which a general checker
//! has no word for, and what is printed is told in calls.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};

use anyhow::{Result, bail};
use chandlery_core::claim::{HolderState, Rules};

use super::task::{Actor, Broken, Kind, Task, end_remote};
use super::world::{HOLDERS, HOSTS, Host, World};

/// Most calls of one run; a run that needs more is one that goes in circles.
const CALLS: usize = 60;

/// How a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// By itself.
    Done,
    /// It stands still before this call; does the other host lead from then on?
    Stands(usize, bool),
    /// Its host dies before this call; does the other host lead from then on, or its successor?
    DiesBefore(usize, bool),
    /// Its host dies when this call has come to pass.
    DiesAfter(usize, bool),
    /// This call comes to pass, and its answer is lost.
    Lost(usize),
}

/// What leads from one state to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    Begins(Kind, Actor, Ending),
    GoesOn(Actor, Ending),
    /// Does the other host lead from then on?
    Dies(Host, bool),
    HandsOver,
    DeletesHolder(usize),
    ForcesHolder(usize),
    DeletesRemote,
    EndsNamespace,
}

/// A state that was reached.
struct Reached {
    world: World,
    from: u32,
    event: Option<Event>,
}

/// What was found.
#[derive(Debug, Clone)]
pub struct Found {
    /// States, each up to the names of holders and hosts.
    pub states: usize,
    /// Steps between them.
    pub transitions: usize,
    /// How many disturbances at most.
    pub disturbances: usize,
    /// What broke, and how; nothing if nothing did.
    pub broken: Option<Trace>,
}

/// The way to a state that must not be.
#[derive(Debug, Clone)]
pub struct Trace {
    /// What broke.
    pub what: String,
    /// One line per step.
    pub steps: Vec<String>,
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.what)?;
        for (at, step) in self.steps.iter().enumerate() {
            writeln!(f, "  {}. {step}", at + 1)?;
        }
        Ok(())
    }
}

/// Hashes small values well enough, and much faster than what guards against an attacker.
#[derive(Default)]
struct Quick(u64);

impl Hasher for Quick {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u8(*byte);
        }
    }

    fn write_u8(&mut self, byte: u8) {
        self.write_u64(byte.into());
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x51_7c_c1_b7_27_22_0a_95);
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }
}

type Quickly = BuildHasherDefault<Quick>;

struct Explorer {
    rules: Rules,
    start: World,
    reached: Vec<Reached>,
    known: HashMap<World, u32, Quickly>,
    /// States from which everything is known to come to its end.
    ends: HashMap<World, (), Quickly>,
    transitions: usize,
    /// Reached with one disturbance more than what is looked at now.
    next: Vec<Reached>,
}

/// Looks at everything that can happen with at most so many disturbances under these rules.
///
/// # Errors
/// If the model itself is wrong.
pub fn explore(rules: Rules, holders: usize, disturbances: usize) -> Result<Found> {
    let mut explorer = Explorer {
        rules,
        start: World::new(holders).canonical(),
        reached: Vec::new(),
        known: HashMap::default(),
        ends: HashMap::default(),
        transitions: 0,
        next: Vec::new(),
    };
    let mut seeds = vec![Reached {
        world: explorer.start.clone(),
        from: u32::MAX,
        event: None,
    }];
    let mut broken = None;
    for level in 0..=disturbances {
        let mut at = explorer.reached.len();
        for seed in std::mem::take(&mut seeds) {
            explorer.enter(seed);
        }
        while at < explorer.reached.len() && broken.is_none() {
            broken = explorer.grow(at, level < disturbances)?;
            at += 1;
        }
        if broken.is_some() {
            break;
        }
        seeds = std::mem::take(&mut explorer.next);
    }
    Ok(Found {
        states: explorer.reached.len(),
        transitions: explorer.transitions,
        disturbances,
        broken,
    })
}

impl Explorer {
    fn enter(&mut self, found: Reached) {
        if !self.known.contains_key(&found.world) {
            let index = u32::try_from(self.reached.len()).unwrap_or(u32::MAX);
            self.known.insert(found.world.clone(), index);
            self.reached.push(found);
        }
    }

    /// Looks at one state and at all that follow from it.
    fn grow(&mut self, at: usize, disturbed: bool) -> Result<Option<Trace>> {
        let Some(world) = self.reached.get(at).map(|reached| reached.world.clone()) else {
            return Ok(None);
        };
        if let Some(what) = check(&world) {
            return Ok(Some(self.trace(at, None, what)?));
        }
        for alone in [false, true] {
            if let Some(what) = self.comes_to_its_end(&world, alone)? {
                let mut trace = self.trace(at, None, what)?;
                let who = if alone { "host B dies; host A" } else { "both hosts" };
                trace.steps.push(format!(
                    "{who}: what stands still goes on; then all is deleted, taken away and torn down"
                ));
                return Ok(Some(trace));
            }
        }
        let from = u32::try_from(at).unwrap_or(u32::MAX);
        let mut followers: Vec<(World, Event, bool, Option<Broken>)> = Vec::new();
        events(&world, self.rules, disturbed, &mut followers)?;
        self.transitions += followers.len();
        for (world, event, disturbs, broken) in followers {
            if let Some(what) = broken {
                return Ok(Some(self.trace(at, Some(event), what)?));
            }
            let world = world.canonical();
            if self.known.contains_key(&world) {
                continue;
            }
            let found = Reached {
                world,
                from,
                event: Some(event),
            };
            if disturbs {
                self.next.push(found);
            } else {
                self.enter(found);
            }
        }
        Ok(None)
    }

    /// Progress: all that stands still goes on, all is deleted, and the hosts (one of them, if the other dies) do what they
    /// do; then nothing is left.
    fn comes_to_its_end(&mut self, world: &World, alone: bool) -> Result<Option<Broken>> {
        let mut world = world.clone();
        if alone {
            world.crash(1);
        }
        for host in 0..HOSTS {
            for seat in (0..HOLDERS).map(Some).chain([None]) {
                let actor = actor(host, seat);
                if let Some(task) = take(&mut world, actor)
                    && let Some(broken) = finish(&mut world, task, actor, self.rules)?
                {
                    return Ok(Some(broken));
                }
            }
        }
        for seat in 0..HOLDERS {
            delete_holder(&mut world, seat);
        }
        let mut broken = None;
        delete_remote(&mut world, &mut broken);
        if broken.is_some() {
            return Ok(broken);
        }
        let mut way = Vec::new();
        for _ in 0..6 {
            let here = world.clone().canonical();
            if self.ends.contains_key(&here) || is_over(&world) {
                for passed in way {
                    self.ends.insert(passed, ());
                }
                return Ok(None);
            }
            way.push(here);
            for host in 0..if alone { 1 } else { HOSTS } {
                for seat in 0..HOLDERS {
                    let of_seat = actor(host, Some(seat));
                    let kind = match world.seats.get(seat).map(|seat| seat.holder) {
                        Some(HolderState::Gone) => Kind::Collect,
                        _ => Kind::Back,
                    };
                    if let Some(broken) = begin(&mut world, kind, of_seat, self.rules)? {
                        return Ok(Some(broken));
                    }
                }
                for kind in [Kind::Protect, Kind::End] {
                    if let Some(broken) = begin(&mut world, kind, actor(host, None), self.rules)? {
                        return Ok(Some(broken));
                    }
                }
            }
        }
        Ok(Some("no progress: all is deleted, and something never goes"))
    }

    fn trace(&self, at: usize, last: Option<Event>, what: &str) -> Result<Trace> {
        let mut events: Vec<Event> = last.into_iter().collect();
        let mut here = at;
        while let Some(Reached {
            from,
            event: Some(event),
            ..
        }) = self.reached.get(here)
        {
            events.push(*event);
            here = usize::try_from(*from)?;
        }
        events.reverse();
        let mut steps = Vec::new();
        let mut world = self.start.clone();
        let mut names = Names::default();
        for event in events {
            let (after, told) = tell(&world, event, self.rules, &names)?;
            steps.push(told);
            let (after, order) = after.canonical_with_names();
            world = after;
            names = names.after(order, hands_over(event));
        }
        Ok(Trace {
            what: what.to_owned(),
            steps,
        })
    }
}

/// What must hold in every state.
fn check(world: &World) -> Option<Broken> {
    for seat in &world.seats {
        if seat.written && !seat.record.is_some_and(|record| record.used) {
            return Some("an orphan: something is on the remote that no record tells of");
        }
        if seat.written && seat.claim.is_none() {
            return Some("something is on the remote that no claim stands for");
        }
        if seat.holder == HolderState::Gone && !seat.forced && seat.written {
            return Some("an orphan: the holder went in good order, and something of it is on the remote");
        }
    }
    None
}

fn is_over(world: &World) -> bool {
    world.remote.is_none()
        && !world.registered
        && world
            .seats
            .iter()
            .all(|seat| seat.claim.is_none() && seat.record.is_none() && seat.holder == HolderState::Gone)
}

fn actor(host: usize, seat: Option<usize>) -> Actor {
    Actor {
        host: u8::try_from(host).unwrap_or_default(),
        seat,
    }
}

/// Takes out what stands still.
fn take(world: &mut World, actor: Actor) -> Option<Task> {
    let host = usize::from(actor.host);
    match actor.seat {
        Some(seat) => world.seats.get_mut(seat)?.tasks.get_mut(host)?.take().map(Task::Step),
        None => world.looks.get_mut(host)?.take().map(Task::Remote),
    }
}

fn put(world: &mut World, actor: Actor, task: Task) {
    let host = usize::from(actor.host);
    match (actor.seat, task) {
        (Some(seat), Task::Step(task)) => {
            if let Some(place) = world.seats.get_mut(seat).and_then(|seat| seat.tasks.get_mut(host)) {
                *place = Some(task);
            }
        }
        (None, Task::Remote(task)) => {
            if let Some(place) = world.looks.get_mut(host) {
                *place = Some(task);
            }
        }
        _ => {}
    }
}

fn is_free(world: &World, actor: Actor) -> bool {
    let host = usize::from(actor.host);
    match actor.seat {
        Some(seat) => world
            .seats
            .get(seat)
            .and_then(|seat| seat.tasks.get(host))
            .is_some_and(Option::is_none),
        None => world.looks.get(host).is_some_and(Option::is_none),
    }
}

/// Runs a task to its end.
fn finish(world: &mut World, mut task: Task, actor: Actor, rules: Rules) -> Result<Option<Broken>> {
    for _ in 0..CALLS {
        let made = task.step(world, actor, rules)?;
        if made.broken.is_some() {
            return Ok(made.broken);
        }
        match made.rest {
            Some(rest) => task = rest,
            None => return Ok(None),
        }
    }
    bail!("a run of more than {CALLS} calls")
}

fn begin(world: &mut World, kind: Kind, actor: Actor, rules: Rules) -> Result<Option<Broken>> {
    let task = Task::new(kind, actor, world, rules);
    finish(world, task, actor, rules)
}

fn delete_holder(world: &mut World, seat: usize) {
    if let Some(seat) = world.seats.get_mut(seat)
        && seat.holder == HolderState::Wants
    {
        seat.holder = HolderState::Leaving;
    }
}

fn force_holder(world: &mut World, seat: usize) {
    if let Some(seat) = world.seats.get_mut(seat) {
        seat.holder = HolderState::Gone;
        seat.forced = true;
    }
}

fn delete_remote(world: &mut World, broken: &mut Option<Broken>) {
    match &mut world.remote {
        Some(remote) if remote.protected && !remote.deleting => {
            remote.deleting = true;
            world.age(super::world::Written::Remote);
        }
        Some(remote) if !remote.protected => end_remote(world, broken),
        _ => {}
    }
}

fn end_namespace(world: &mut World, broken: &mut Option<Broken>) {
    world.ending = true;
    for seat in 0..HOLDERS {
        delete_holder(world, seat);
        if let Some(claim) = world.seats.get(seat).and_then(|seat| seat.claim) {
            let claim = claim.finalizer.then_some(super::world::StoredClaim {
                deleting: true,
                ..claim
            });
            if let Some(seat) = world.seats.get_mut(seat) {
                seat.claim = claim;
            }
            world.age(super::world::Written::Claim(seat));
        }
    }
    delete_remote(world, broken);
}

type Follower = (World, Event, bool, Option<Broken>);

/// All that can happen next.
fn events(world: &World, rules: Rules, disturbed: bool, followers: &mut Vec<Follower>) -> Result<()> {
    for host in 0..HOSTS {
        for seat in (0..HOLDERS).map(Some).chain([None]) {
            let actor = actor(host, seat);
            if !is_free(world, actor) {
                runs(world, None, actor, rules, disturbed, followers)?;
            } else if host == 0 {
                for kind in kinds(world, seat).iter().copied() {
                    if !is_stale(world, kind, seat) {
                        runs(world, Some(kind), actor, rules, disturbed, followers)?;
                    } else if disturbed {
                        begins_stale(world, kind, actor, rules, followers)?;
                    }
                }
            }
        }
    }
    if disturbed {
        for (host, over) in [(0_u8, false), (0, true), (1, false)] {
            let mut after = world.clone();
            after.crash(host);
            if over {
                after.hand_over();
            }
            followers.push((after, Event::Dies(host, over), true, None));
        }
        let mut after = world.clone();
        after.hand_over();
        followers.push((after, Event::HandsOver, true, None));
    }
    for (at, seat) in world.seats.iter().enumerate() {
        if seat.holder == HolderState::Wants {
            let mut after = world.clone();
            delete_holder(&mut after, at);
            followers.push((after, Event::DeletesHolder(at), false, None));
        }
        if disturbed && seat.holder != HolderState::Gone {
            let mut after = world.clone();
            force_holder(&mut after, at);
            followers.push((after, Event::ForcesHolder(at), true, None));
        }
    }
    if world.remote.is_some_and(|remote| !remote.deleting) {
        let (mut after, mut broken) = (world.clone(), None);
        delete_remote(&mut after, &mut broken);
        followers.push((after, Event::DeletesRemote, false, broken));
    }
    if disturbed && !world.ending {
        let (mut after, mut broken) = (world.clone(), None);
        end_namespace(&mut after, &mut broken);
        followers.push((after, Event::EndsNamespace, true, broken));
    }
    Ok(())
}

/// What there is to do, on a view that may be old.
fn kinds(world: &World, seat: Option<usize>) -> &'static [Kind] {
    match (seat, &world.remote) {
        (Some(seat), _) => match world
            .seats
            .get(seat)
            .map(|seat| seat.claim.is_some() || seat.record.is_some())
        {
            Some(true) => &[Kind::Bring, Kind::Back, Kind::Collect],
            _ => &[Kind::Bring, Kind::Back],
        },
        (None, Some(remote)) if remote.deleting => &[Kind::End],
        (None, Some(remote)) if remote.protected => &[Kind::Register, Kind::Drain],
        (None, Some(_)) => &[Kind::Protect, Kind::Register, Kind::Drain],
        (None, None) => &[],
    }
}

/// Whether a run of this kind begins only on a view that is not so any more.
fn is_stale(world: &World, kind: Kind, seat: Option<usize>) -> bool {
    let holder = seat.and_then(|seat| world.seats.get(seat)).map(|seat| seat.holder);
    let used = world.seats.iter().any(|seat| seat.claim.is_some());
    match kind {
        Kind::Bring => holder != Some(HolderState::Wants),
        // While the holder wants the step, its condition may be false.
        Kind::Back => holder != Some(HolderState::Leaving),
        Kind::Register => !used,
        Kind::Drain => used,
        Kind::Collect | Kind::Protect | Kind::End => false,
    }
}

/// A run that begins on an old view, which is its one disturbance.
fn begins_stale(world: &World, kind: Kind, actor: Actor, rules: Rules, followers: &mut Vec<Follower>) -> Result<()> {
    let mut after = world.clone();
    let broken = begin(&mut after, kind, actor, rules)?;
    followers.push((after, Event::Begins(kind, actor, Ending::Done), true, broken));
    Ok(())
}

/// After a disturbance the same host leads, or the other.
fn both(after: World, event: &impl Fn(bool) -> Event, followers: &mut Vec<Follower>) {
    let mut over = after.clone();
    over.hand_over();
    followers.push((over, event(true), true, None));
    followers.push((after, event(false), true, None));
}

/// All ways in which a run can go: to its end, and if it may be disturbed, in each other way at each of its calls.
fn runs(
    world: &World,
    kind: Option<Kind>,
    actor: Actor,
    rules: Rules,
    disturbed: bool,
    followers: &mut Vec<Follower>,
) -> Result<()> {
    let mut here = world.clone();
    let event = |ending| match kind {
        Some(kind) => Event::Begins(kind, actor, ending),
        None => Event::GoesOn(actor, ending),
    };
    let mut task = match kind {
        Some(kind) => Task::new(kind, actor, &here, rules),
        None => match take(&mut here, actor) {
            Some(task) => task,
            None => return Ok(()),
        },
    };
    for call in 0..CALLS {
        if disturbed && call > 0 {
            let mut after = here.clone();
            put(&mut after, actor, task.clone());
            both(after, &|over| event(Ending::Stands(call, over)), followers);
            let mut after = here.clone();
            after.crash(actor.host);
            both(after, &|over| event(Ending::DiesBefore(call, over)), followers);
        }
        let made = task.step(&mut here, actor, rules)?;
        if made.broken.is_some() {
            followers.push((here, event(Ending::Done), false, made.broken));
            return Ok(());
        }
        if disturbed {
            let mut after = here.clone();
            after.crash(actor.host);
            both(after, &|over| event(Ending::DiesAfter(call, over)), followers);
            followers.push((here.clone(), event(Ending::Lost(call)), true, None));
        }
        match made.rest {
            Some(rest) => task = rest,
            None => {
                followers.push((here, event(Ending::Done), false, None));
                return Ok(());
            }
        }
    }
    bail!("a run of more than {CALLS} calls")
}

/// What holders and hosts are called in a trace, whatever place they have in a state.
#[derive(Clone, Copy)]
struct Names {
    holders: [usize; HOLDERS],
    swapped: bool,
}

impl Default for Names {
    fn default() -> Self {
        Self {
            holders: [0, 1, 2],
            swapped: false,
        }
    }
}

impl Names {
    fn after(self, order: [usize; HOLDERS], swapped: bool) -> Self {
        Self {
            holders: order.map(|before| self.holders.get(before).copied().unwrap_or_default()),
            swapped: self.swapped != swapped,
        }
    }

    fn host(self, host: Host) -> char {
        char::from(b'A' + if self.swapped { 1 - host.min(1) } else { host })
    }

    fn holder(self, seat: usize) -> String {
        format!("holder {}", self.holders.get(seat).copied().unwrap_or_default() + 1)
    }

    fn whom(self, actor: Actor) -> String {
        actor.seat.map_or("the remote".to_owned(), |seat| self.holder(seat))
    }
}

fn hands_over(event: Event) -> bool {
    match event {
        Event::Begins(_, _, ending) | Event::GoesOn(_, ending) => matches!(
            ending,
            Ending::Stands(_, true) | Ending::DiesBefore(_, true) | Ending::DiesAfter(_, true)
        ),
        Event::Dies(_, over) => over,
        Event::HandsOver => true,
        _ => false,
    }
}

/// Does what an event says, and tells it.
fn tell(world: &World, event: Event, rules: Rules, names: &Names) -> Result<(World, String)> {
    let mut here = world.clone();
    let told = match event {
        Event::Dies(host, over) => {
            here.crash(host);
            if over {
                here.hand_over();
            }
            format!("host {} dies{}", names.host(host), leads(over))
        }
        Event::HandsOver => {
            here.hand_over();
            format!("host {} goes on living{}", names.host(0), leads(true))
        }
        Event::DeletesHolder(seat) => {
            delete_holder(&mut here, seat);
            format!("{} is deleted", names.holder(seat))
        }
        Event::ForcesHolder(seat) => {
            force_holder(&mut here, seat);
            format!("{} is made to go", names.holder(seat))
        }
        Event::DeletesRemote => {
            delete_remote(&mut here, &mut None);
            "the remote is deleted".to_owned()
        }
        Event::EndsNamespace => {
            end_namespace(&mut here, &mut None);
            "the namespace is deleted".to_owned()
        }
        Event::Begins(kind, actor, ending) => {
            let task = Task::new(kind, actor, &here, rules);
            let calls = tell_run(&mut here, task, actor, ending, rules)?;
            let (host, whom) = (names.host(actor.host), names.whom(actor));
            format!("host {host} {} {whom}: {calls}", verb(kind))
        }
        Event::GoesOn(actor, ending) => match take(&mut here, actor) {
            Some(task) => {
                let calls = tell_run(&mut here, task, actor, ending, rules)?;
                let (host, whom) = (names.host(actor.host), names.whom(actor));
                format!("host {host} goes on with {whom}: {calls}")
            }
            None => bail!("nothing stands still at {actor:?}"),
        },
    };
    Ok((here, told))
}

fn tell_run(world: &mut World, mut task: Task, actor: Actor, ending: Ending, rules: Rules) -> Result<String> {
    let mut told = Vec::new();
    for call in 0..CALLS {
        match ending {
            Ending::Stands(at, over) if at == call => {
                put(world, actor, task);
                told.push(format!("and stands still{}", leads(over)));
                if over {
                    world.hand_over();
                }
                break;
            }
            Ending::DiesBefore(at, over) if at == call => {
                world.crash(actor.host);
                told.push(format!("and dies{}", leads(over)));
                if over {
                    world.hand_over();
                }
                break;
            }
            _ => {}
        }
        let made = task.step(world, actor, rules)?;
        told.push(made.call);
        match ending {
            Ending::DiesAfter(at, over) if at == call => {
                world.crash(actor.host);
                told.push(format!("and dies{}", leads(over)));
                if over {
                    world.hand_over();
                }
                break;
            }
            Ending::Lost(at) if at == call => {
                told.push("and loses the answer".to_owned());
                break;
            }
            _ => {}
        }
        match made.rest.filter(|_| made.broken.is_none()) {
            Some(rest) => task = rest,
            None => break,
        }
    }
    Ok(told.join(", "))
}

fn leads(over: bool) -> &'static str {
    if over { "; the other host leads" } else { "" }
}

fn verb(kind: Kind) -> &'static str {
    match kind {
        Kind::Bring => "brings the step of",
        Kind::Back => "takes away the step of",
        Kind::Collect => "collects what is left of",
        Kind::Protect => "looks at",
        Kind::Register => "registers",
        Kind::Drain => "tears down, after the last claim,",
        Kind::End => "tears down, for deletion,",
    }
}
