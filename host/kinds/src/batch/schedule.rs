//! Schedules in five fields, as `cron` has them, and what is wrong with one.

/// The bounds of a field, and the names its values have.
struct Bounds {
    low: u32,
    high: u32,
    names: &'static [(&'static str, u32)],
}

const FIELDS: [Bounds; 5] = [
    Bounds {
        low: 0,
        high: 59,
        names: &[],
    },
    Bounds {
        low: 0,
        high: 23,
        names: &[],
    },
    Bounds {
        low: 1,
        high: 31,
        names: &[],
    },
    Bounds {
        low: 1,
        high: 12,
        names: &[
            ("jan", 1),
            ("feb", 2),
            ("mar", 3),
            ("apr", 4),
            ("may", 5),
            ("jun", 6),
            ("jul", 7),
            ("aug", 8),
            ("sep", 9),
            ("oct", 10),
            ("nov", 11),
            ("dec", 12),
        ],
    },
    Bounds {
        low: 0,
        high: 6,
        names: &[
            ("sun", 0),
            ("mon", 1),
            ("tue", 2),
            ("wed", 3),
            ("thu", 4),
            ("fri", 5),
            ("sat", 6),
        ],
    },
];
const DESCRIPTORS: [&str; 7] = [
    "@yearly",
    "@annually",
    "@monthly",
    "@weekly",
    "@daily",
    "@midnight",
    "@hourly",
];

/// What is wrong with a schedule, if anything is.
pub(super) fn complaint(schedule: &str) -> Option<String> {
    let own = match schedule
        .strip_prefix("TZ=")
        .or_else(|| schedule.strip_prefix("CRON_TZ="))
    {
        Some(rest) => rest.split_once(' ').map(|(_, own)| own.trim()).unwrap_or_default(),
        None => schedule,
    };
    if own.starts_with('@') {
        let is_known = DESCRIPTORS.contains(&own) || own.starts_with("@every ");
        return (!is_known).then(|| format!("unrecognized descriptor: {own}"));
    }
    let fields: Vec<&str> = own.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        return Some(format!(
            "expected exactly 5 fields, found {}: [{}]",
            fields.len(),
            fields.join(" ")
        ));
    }
    fields.iter().zip(&FIELDS).find_map(|(field, bounds)| {
        field
            .split(',')
            .filter(|part| !part.is_empty())
            .find_map(|part| range(part, bounds))
    })
}

fn number(text: &str) -> Result<u32, String> {
    let parsed: i64 = text
        .parse()
        .map_err(|_| format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax"))?;
    u32::try_from(parsed).map_err(|_| format!("negative number ({parsed}) not allowed: {text}"))
}

fn value(text: &str, bounds: &Bounds) -> Result<u32, String> {
    let lower = text.to_lowercase();
    match bounds.names.iter().find(|(name, _)| *name == lower) {
        Some((_, value)) => Ok(*value),
        None => number(text),
    }
}

fn range(part: &str, bounds: &Bounds) -> Option<String> {
    checked_range(part, bounds).err()
}

fn checked_range(part: &str, bounds: &Bounds) -> Result<(), String> {
    let (span, steps) = match part.split_once('/') {
        Some((span, steps)) => (span, Some(steps)),
        None => (part, None),
    };
    let (from, to) = match span.split_once('-') {
        Some((from, to)) => (from, Some(to)),
        None => (span, None),
    };
    let (start, mut end) = if matches!(from, "*" | "?") {
        (bounds.low, bounds.high)
    } else {
        let start = value(from, bounds)?;
        let end = match to {
            Some(to) if to.contains('-') => return Err(format!("too many hyphens: {part}")),
            Some(to) => value(to, bounds)?,
            None => start,
        };
        (start, end)
    };
    let step = match steps {
        None => 1,
        Some(steps) if steps.contains('/') => return Err(format!("too many slashes: {part}")),
        Some(steps) => {
            let step = number(steps)?;
            if to.is_none() {
                end = bounds.high;
            }
            step
        }
    };
    let (low, high) = (bounds.low, bounds.high);
    if start < low {
        return Err(format!("beginning of range ({start}) below minimum ({low}): {part}"));
    }
    if end > high {
        return Err(format!("end of range ({end}) above maximum ({high}): {part}"));
    }
    if start > end {
        return Err(format!(
            "beginning of range ({start}) beyond end of range ({end}): {part}"
        ));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {part}"));
    }
    Ok(())
}
